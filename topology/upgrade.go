package topology

import (
	"context"
	"errors"
	"fmt"

	versionutil "k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// ErrSeveralMinors is wrapped by the error about an upgrade by more than one minor release.
var ErrSeveralMinors = errors.New("is more than one minor release")

// Upgrade sets the Kubernetes version of a cluster read from the API server, if [CheckUpgrade] permits it and the
// control plane can move to another host. If the ClusterClass names an extension for upgrade plans, the cluster may go
// up by several minor releases.
func Upgrade(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, version string) error {
	topology := &cluster.Spec.Topology
	if !topology.IsDefined() {
		return hint.Errorf("change the version of its KubeadmControlPlane and MachineDeployments",
			"cluster %s has no topology", cluster.Name)
	}
	err := CheckUpgrade(topology.Version, version)
	if errors.Is(err, ErrSeveralMinors) {
		err = planned(ctx, c, cluster, err)
	}
	if err != nil {
		return err
	}
	if err := checkEndpoint(ctx, c, cluster, "an upgrade"); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	topology.Version = version
	return patch(ctx, c, cluster, before)
}

// planned returns nil if the ClusterClass of a cluster names an extension that plans upgrades, else refusal.
func planned(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, refusal error) error {
	class := &clusterv1.ClusterClass{}
	if err := c.Get(ctx, cluster.GetClassKey(), class); err != nil {
		return fmt.Errorf("reading the ClusterClass of cluster %s: %w", cluster.Name, err)
	}
	if class.Spec.Upgrade.External.GenerateUpgradePlanExtension == "" {
		return refusal
	}
	return nil
}

// CheckUpgrade refuses what kubeadm would refuse: a downgrade, or skipping a minor release.
func CheckUpgrade(from, to string) error {
	old, err := versionutil.ParseSemantic(from)
	if err != nil {
		return fmt.Errorf("the cluster's version %q: %w", from, err)
	}
	wanted, err := versionutil.ParseSemantic(to)
	if err != nil {
		return hint.Errorf("give it like v1.36.3", "--kubernetes-version %q: %w", to, err)
	}
	switch {
	case wanted.LessThan(old):
		return hint.Errorf("make a new cluster of that version",
			"the cluster runs %s; Kubernetes does not go back to %s", from, to)
	case wanted.Major() != old.Major() || wanted.Minor() > old.Minor()+1:
		return hint.Errorf(
			fmt.Sprintf("go to a v%d.%d release first, or name an extension for upgrade plans in its ClusterClass",
				old.Major(), old.Minor()+1), "from %s to %s %w", from, to, ErrSeveralMinors)
	}
	return nil
}
