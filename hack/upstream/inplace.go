package main

// classInPlace is our class for in-place updates.
const classInPlace = "capstan-local-in-place"

// filesVariable is the variable that the spec of in-place updates changes.
const filesVariable = "files"

// topologyInPlace returns a cluster whose workers are updated in place. The spec says how many may be unavailable
// meanwhile.
func (s sources) topologyInPlace() ([]document, error) {
	documents, err := s.topology(classInPlace)
	if err != nil {
		return nil, err
	}
	cluster, err := find(documents, "Cluster")
	if err != nil {
		return nil, err
	}
	workers, err := workersOf(cluster)
	if err != nil {
		return nil, err
	}
	workers.set(map[string]any{
		"type": "RollingUpdate",
		"rollingUpdate": map[string]any{
			"maxSurge": "${MD_MAX_SURGE}", "maxUnavailable": "${MD_MAX_UNAVAILABLE}",
		},
	}, "rollout", "strategy")
	return documents, nil
}

// classInPlaceDocuments returns our class with a variable for files, which patches add to control planes and workers.
// Its control planes are rolled out without an additional machine.
func (s sources) classInPlaceDocuments() ([]document, error) {
	documents, err := s.files(s.ours, "clusterclass-capstan-local.yaml")
	if err != nil {
		return nil, err
	}
	c, err := find(documents, "ClusterClass")
	if err != nil {
		return nil, err
	}
	controlPlane, err := find(documents, "KubeadmControlPlaneTemplate")
	if err != nil {
		return nil, err
	}
	controlPlane.set("${KUBEADM_CONTROL_PLANE_MAX_SURGE}",
		"spec", "template", "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
	c.set(classInPlace, "metadata", "name")
	text := map[string]any{"type": "string"}
	c.set([]any{map[string]any{
		"name": filesVariable, "required": false,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "array",
			"items": map[string]any{
				"type": "object", "properties": map[string]any{"path": text, "content": text},
			},
		}},
	}}, "spec", "variables")
	patch := func(apiVersion, kind, path string, resources map[string]any) any {
		return map[string]any{
			"selector": map[string]any{"apiVersion": apiVersion, "kind": kind, "matchResources": resources},
			"jsonPatches": []any{map[string]any{
				"op": "add", "path": path, "valueFrom": map[string]any{"variable": filesVariable},
			}},
		}
	}
	c.set([]any{map[string]any{
		"name": filesVariable, "enabledIf": "{{ if ." + filesVariable + " }}true{{ end }}",
		"definitions": []any{
			patch("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate",
				"/spec/template/spec/kubeadmConfigSpec/files", map[string]any{"controlPlane": true}),
			patch("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "/spec/template/spec/files",
				map[string]any{"machineDeploymentClass": map[string]any{"names": []any{"default-worker"}}}),
		},
	}}, "spec", "patches")
	return documents, nil
}
