package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Objects are the objects that a cluster is made of. Their JSON form is stable.
type Objects struct {
	Cluster       *clusterv1.Cluster                  `json:"cluster"`
	Infra         *infrav1.CapstanCluster             `json:"infrastructure,omitempty"`
	ControlPlane  *controlplanev1.KubeadmControlPlane `json:"controlPlane,omitempty"`
	Deployments   []clusterv1.MachineDeployment       `json:"machineDeployments,omitempty"`
	Machines      []clusterv1.Machine                 `json:"machines,omitempty"`
	InfraMachines map[string]*infrav1.CapstanMachine  `json:"-"`
	Hosts         map[string]*infrav1.CapstanHost     `json:"-"` // by name of the claiming CapstanMachine
}

// Read reads the objects of a cluster. If the Cluster does not exist, it returns the API server's error unchanged.
func Read(ctx context.Context, c client.Reader, cluster client.ObjectKey) (Objects, error) {
	o := Objects{
		Cluster: &clusterv1.Cluster{}, InfraMachines: map[string]*infrav1.CapstanMachine{},
		Hosts: map[string]*infrav1.CapstanHost{},
	}
	if err := c.Get(ctx, cluster, o.Cluster); err != nil {
		return o, err
	}
	var infra infrav1.CapstanClusterList
	var controlPlanes controlplanev1.KubeadmControlPlaneList
	var deployments clusterv1.MachineDeploymentList
	var machines clusterv1.MachineList
	var infraMachines infrav1.CapstanMachineList
	for _, list := range []client.ObjectList{&infra, &controlPlanes, &deployments, &machines, &infraMachines} {
		if err := c.List(ctx, list, of(cluster)...); err != nil {
			return o, fmt.Errorf("reading the objects of cluster %s: %w", cluster.Name, err)
		}
	}
	var hosts infrav1.CapstanHostList
	if err := c.List(ctx, &hosts, client.InNamespace(cluster.Namespace)); err != nil {
		return o, fmt.Errorf("listing hosts: %w", err)
	}
	if len(infra.Items) > 0 {
		o.Infra = &infra.Items[0]
	}
	if len(controlPlanes.Items) > 0 {
		o.ControlPlane = &controlPlanes.Items[0]
	}
	o.Deployments, o.Machines = deployments.Items, machines.Items
	slices.SortFunc(o.Machines, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for i := range infraMachines.Items {
		o.InfraMachines[infraMachines.Items[i].Name] = &infraMachines.Items[i]
	}
	for i := range hosts.Items {
		if claim := hosts.Items[i].Spec.Claim; claim != nil && claim.Cluster == cluster.Name {
			o.Hosts[claim.Machine] = &hosts.Items[i]
		}
	}
	return o, nil
}

// of returns list options that select the objects of a cluster.
func of(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name},
	}
}
