package main

// kcpAdoption is a cluster with a control plane of a single Machine in step 1, which a KubeadmControlPlane adopts in
// step 2. The labels say which object belongs to which step.
func (s sources) kcpAdoption() ([]document, error) {
	plain, err := s.plain()
	if err != nil {
		return nil, err
	}
	controlPlane, err := find(plain, "KubeadmControlPlane")
	if err != nil {
		return nil, err
	}
	var first, second []document
	for _, d := range plain {
		switch d.kind() {
		case "Cluster":
			alone := d.clone()
			alone.remove("spec", "controlPlaneRef")
			first, second = append(first, alone), append(second, d)
		case "KubeadmControlPlane":
			second = append(second, d)
		case "CapstanMachineTemplate":
			if d.name() == controlPlane.text("spec", "machineTemplate", "spec", "infrastructureRef", "name") {
				second = append(second, d)
			}
		case "CapstanCluster", "ConfigMap", "ClusterResourceSet":
			first = append(first, d)
		}
	}
	first = append(first, adopted(controlPlane)...)
	for label, documents := range map[string][]document{"kcp-adoption.step1": first, "kcp-adoption.step2": second} {
		for _, d := range documents {
			d.set("", "metadata", "labels", label)
		}
	}
	return append(first, second...), nil
}

// adopted returns the Machine to adopt and the objects that it refers to. Its configuration equals the control plane's,
// so that the Machine is not replaced.
func adopted(controlPlane document) []document {
	const name = "${CLUSTER_NAME}-control-plane-0"
	object := func(apiVersion, kind string, spec map[string]any) document {
		return document{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{
				"name": name, "labels": map[string]any{"cluster.x-k8s.io/control-plane": ""},
			},
		}
	}
	config := copyOf(controlPlane.get("spec", "kubeadmConfigSpec")).(map[string]any)
	delete(config, "joinConfiguration")
	return []document{
		object("infrastructure.capstan.dev/v1beta2", "CapstanMachine", map[string]any{}),
		object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", config),
		object("cluster.x-k8s.io/v1beta2", "Machine", map[string]any{
			"clusterName": "${CLUSTER_NAME}",
			"version":     "${KUBERNETES_VERSION}",
			"bootstrap": map[string]any{"configRef": map[string]any{
				"name": name, "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig",
			}},
			"infrastructureRef": map[string]any{
				"name": name, "apiGroup": "infrastructure.capstan.dev", "kind": "CapstanMachine",
			},
		}),
	}
}
