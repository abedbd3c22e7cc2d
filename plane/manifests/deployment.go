package manifests

// EmbeddedAnnotation is on the Deployment of a provider that is built into the plane's own process: nothing runs the
// Pods that the Deployment describes.
const EmbeddedAnnotation = "plane.capstan.dev/embedded"

// Deployments returns a Deployment for each provider of the inventory, with the labels of the provider's components.
// Programs look at such a Deployment to find out whether the provider is installed and works. The Deployment represents
// the plane's process, which writes the Deployment's status.
func Deployments(ourVersion string) ([]Object, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, p := range providers {
		if p.name == "" {
			continue
		}
		v := version
		if p.directory == "" {
			v = ourVersion
		}
		name := p.prefix + "controller-manager"
		selected := map[string]any{"cluster.x-k8s.io/provider": p.label}
		objects = append(objects, Object{
			Kind: "Deployment", Namespace: p.namespace, Name: name,
			Collection: "/apis/apps/v1/namespaces/" + p.namespace + "/deployments",
			JSON: encode(map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{
					"name": name, "namespace": p.namespace, "labels": p.labels(),
					"annotations": map[string]any{
						EmbeddedAnnotation: "the provider runs in the plane's own process, without Pods",
					},
				},
				"spec": map[string]any{
					"replicas": 1, "selector": map[string]any{"matchLabels": selected},
					"template": map[string]any{
						"metadata": map[string]any{"labels": selected},
						"spec": map[string]any{"containers": []any{
							map[string]any{"name": "manager", "image": "capstan.dev/embedded/" + p.label + ":" + v},
						}},
					},
				},
			}),
		})
	}
	return objects, nil
}
