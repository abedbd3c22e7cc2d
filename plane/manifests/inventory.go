package manifests

// Inventory returns the namespaces of the providers, and the objects that tell clusterctl what is installed: the three
// providers of Cluster API at the embedded version, and Capstan at ourVersion, such as v0.1.0.
func Inventory(ourVersion string) ([]Object, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, p := range providers {
		if p.name == "" {
			continue
		}
		objects = append(objects, Object{
			Kind: "Namespace", Name: p.namespace, Collection: "/api/v1/namespaces",
			JSON: encode(map[string]any{
				"apiVersion": "v1", "kind": "Namespace",
				"metadata": map[string]any{"name": p.namespace, "labels": p.labels()},
			}),
		})
	}
	for _, p := range providers {
		if p.name == "" {
			continue
		}
		labels := p.labels()
		labels["clusterctl.cluster.x-k8s.io/core"] = "inventory"
		v := version
		if p.directory == "" {
			v = ourVersion
		}
		objects = append(objects, Object{
			Kind: "Provider", Namespace: p.namespace, Name: p.label,
			Collection: "/apis/clusterctl.cluster.x-k8s.io/v1alpha3/namespaces/" + p.namespace + "/providers",
			JSON: encode(map[string]any{
				"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
				"metadata":     map[string]any{"name": p.label, "namespace": p.namespace, "labels": labels},
				"providerName": p.name, "type": p.kind, "version": v,
			}),
		})
	}
	return objects, nil
}
