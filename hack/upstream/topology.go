package main

import "fmt"

// workersOf returns the only MachineDeployment of a Cluster's topology.
func workersOf(cluster document) (document, error) {
	deployments, _ := cluster.get("spec", "topology", "workers", "machineDeployments").([]any)
	if len(deployments) != 1 {
		return nil, fmt.Errorf("our topology has %d MachineDeployments, not one", len(deployments))
	}
	workers, isMap := deployments[0].(map[string]any)
	if !isMap {
		return nil, fmt.Errorf("the MachineDeployment of our topology is no object")
	}
	return workers, nil
}

// topologyTaints returns a cluster whose control plane and workers have the same taints as theirs.
func (s sources) topologyTaints() ([]document, error) {
	documents, err := s.topology(class)
	if err != nil {
		return nil, err
	}
	cluster, err := find(documents, "Cluster")
	if err != nil {
		return nil, err
	}
	theirs, err := s.files(s.theirs, "cluster-template-topology-taints/controlplane-taints.yaml")
	if err != nil {
		return nil, err
	}
	from, err := find(theirs, "Cluster")
	if err != nil {
		return nil, err
	}
	taints := from.get("spec", "topology", "controlPlane", "taints")
	if taints == nil {
		return nil, fmt.Errorf("their Cluster has no taints")
	}
	workers, err := workersOf(cluster)
	if err != nil {
		return nil, err
	}
	cluster.set(copyOf(taints), "spec", "topology", "controlPlane", "taints")
	workers.set(copyOf(taints), "taints")
	return documents, nil
}
