package topology

import (
	"context"
	"fmt"

	versionutil "k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Upgrade changes the Kubernetes version of a cluster, as read from the API server before, to one that [CheckUpgrade]
// lets through.
func Upgrade(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, version string) error {
	topology := &cluster.Spec.Topology
	if !topology.IsDefined() {
		return hint.Errorf("change the version of its KubeadmControlPlane and MachineDeployments",
			"cluster %s has no topology", cluster.Name)
	}
	if err := CheckUpgrade(topology.Version, version); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	topology.Version = version
	return patch(ctx, c, cluster, before)
}

// CheckUpgrade finds what kubeadm would refuse: a step back, or one over a minor release.
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
		return hint.Errorf(fmt.Sprintf("go to a v%d.%d release first", old.Major(), old.Minor()+1),
			"from %s to %s is more than one minor release", from, to)
	}
	return nil
}
