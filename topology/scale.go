package topology

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Size is the number of machines of each kind. Nil keeps the current number.
type Size struct {
	ControlPlane, Workers *int32
}

// Scale changes the numbers of machines of a cluster read from the API server. It returns the new request.
func Scale(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, size Size) (Request, error) {
	before := cluster.DeepCopy()
	want, err := resize(cluster, size)
	if err != nil {
		return want, err
	}
	if want.ControlPlane > ptr.Deref(before.Spec.Topology.ControlPlane.Replicas, 1) {
		if err := checkEndpoint(ctx, c, cluster, "a larger control plane"); err != nil {
			return want, err
		}
	}
	if err := want.Check(ctx, c); err != nil {
		return want, err
	}
	return want, patch(ctx, c, cluster, before)
}

// resize changes the topology of a cluster and returns the new request. After an error, the caller must discard the
// cluster.
func resize(cluster *clusterv1.Cluster, size Size) (Request, error) {
	topology := &cluster.Spec.Topology
	if !topology.IsDefined() {
		return Request{}, hint.Errorf("scale its KubeadmControlPlane and MachineDeployments with capstan kubectl scale",
			"cluster %s has no topology", cluster.Name)
	}
	if size.ControlPlane == nil && size.Workers == nil {
		return Request{}, hint.Errorf("give --workers N or --control-plane N", "nothing to change")
	}
	if size.ControlPlane != nil {
		topology.ControlPlane.Replicas = size.ControlPlane
	}
	if size.Workers != nil {
		mds := topology.Workers.MachineDeployments
		if len(mds) != 1 {
			return Request{}, hint.Errorf("edit it: capstan kubectl edit cluster "+cluster.Name,
				"cluster %s has %d machine deployments; --workers works with one", cluster.Name, len(mds))
		}
		mds[0].Replicas = size.Workers
	}
	want := Request{
		Name: cluster.Name, Namespace: cluster.Namespace, Version: topology.Version,
		Class: topology.ClassRef.Name, ClassNamespace: topology.ClassRef.Namespace,
		ControlPlane: ptr.Deref(topology.ControlPlane.Replicas, 1),
	}
	want.Workers = int32(Machines(cluster)) - want.ControlPlane
	return want, want.Validate()
}

// patch writes the differences between the states before and cluster. It takes no optimistic lock, because controllers
// write status and annotations all the time and the patch holds only what the user wants to change. It replaces a list
// of machine deployments as a whole.
func patch(ctx context.Context, c client.Client, cluster, before *clusterv1.Cluster) error {
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return hint.Errorf("try again", "changing cluster %s: %w", cluster.Name, err)
	}
	return nil
}
