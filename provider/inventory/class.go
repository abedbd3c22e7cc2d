package inventory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// classes reads ClusterClasses, each at most once.
type classes struct {
	reader client.Reader
	known  map[client.ObjectKey]*clusterv1.ClusterClass // nil if it doesn't exist
}

func (c *classes) get(ctx context.Context, key client.ObjectKey) (*clusterv1.ClusterClass, error) {
	if class, ok := c.known[key]; ok {
		return class, nil
	}
	class := &clusterv1.ClusterClass{}
	err := c.reader.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		class, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterClass %s: %w", key, err)
	}
	if c.known == nil {
		c.known = map[client.ObjectKey]*clusterv1.ClusterClass{}
	}
	c.known[key] = class
	return class, nil
}

// wants returns how many hosts the topology of a Cluster asks for, counted as the capacity gate does. The result hosts
// is 0 without a topology or while the ClusterClass does not exist. zones counts the workers of MachineDeployments by
// failure domain, with "" for those without one. The result ours is false for a Cluster of another provider.
func (c *classes) wants(ctx context.Context, cluster *clusterv1.Cluster) (
	hosts int, zones map[string]int, ours bool, err error,
) {
	zones = map[string]int{}
	if !cluster.Spec.Topology.IsDefined() {
		infrastructure := cluster.Spec.InfrastructureRef
		return 0, zones, !infrastructure.IsDefined() || infrastructure.APIGroup == infrav1.GroupVersion.Group, nil
	}
	class, err := c.get(ctx, cluster.GetClassKey())
	if err != nil || class == nil {
		return 0, zones, err == nil, err
	}
	topology := &cluster.Spec.Topology
	if isOurs(class.Spec.ControlPlane.MachineInfrastructure.TemplateRef) {
		hosts, ours = replicas(topology.ControlPlane.Replicas, nil), true
	}
	for _, has := range class.Spec.Workers.MachineDeployments {
		if !isOurs(has.Infrastructure.TemplateRef) {
			continue
		}
		ours = true
		for _, md := range topology.Workers.MachineDeployments {
			if md.Class == has.Class {
				n := replicas(md.Replicas, md.Metadata.Annotations)
				hosts += n
				zones[cmp.Or(md.FailureDomain, has.FailureDomain)] += n
			}
		}
	}
	for _, has := range class.Spec.Workers.MachinePools {
		if !isOurs(has.Infrastructure.TemplateRef) {
			continue
		}
		ours = true
		for _, mp := range topology.Workers.MachinePools {
			if mp.Class == has.Class {
				hosts += replicas(mp.Replicas, mp.Metadata.Annotations)
			}
		}
	}
	return hosts, zones, ours, nil
}

func isOurs(ref clusterv1.ClusterClassTemplateReference) bool {
	return strings.HasPrefix(ref.APIVersion, infrav1.GroupVersion.Group+"/")
}

// replicas returns the initial number of machines: the number that is set, else the autoscaler's minimum, else 1.
func replicas(written *int32, annotations map[string]string) int {
	if written != nil {
		return int(*written)
	}
	if least, err := strconv.Atoi(annotations[clusterv1.AutoscalerMinSizeAnnotation]); err == nil && least >= 0 {
		return least
	}
	return 1
}

// surgeOf returns how many additional machines a rollout needs. The default is 1.
func surgeOf(surge *intstr.IntOrString, machines int) int {
	switch {
	case machines == 0:
		return 0
	case surge == nil:
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(surge, machines, true)
	if err != nil {
		return 1 // the API server rejects such values
	}
	return n
}
