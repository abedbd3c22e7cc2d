package machine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestCluster(t *testing.T) { // IM-43
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: clusterv1.MachineSpec{ClusterName: "demo"},
	}
	for name, c := range map[string]struct {
		cluster *clusterv1.Cluster
		want    *step.Obstacle
	}{
		"the Cluster exists": {cluster: &clusterv1.Cluster{}},
		"the Cluster does not exist": {want: &step.Obstacle{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Message: "Cluster demo of Machine w1 does not exist", Brief: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			decides(t, (*Reconciler).cluster, &scope{machine: machine, owningCluster: c.cluster}, c.want)
		})
	}
	t.Attr("rule", "IM-43 v1beta2")
}

func TestClusterInfrastructure(t *testing.T) { // IM-45
	waits := &step.Obstacle{
		Reason:  infrav1.WaitingForClusterInfrastructureReason,
		Message: "the infrastructure of Cluster demo is not provisioned yet", Brief: true,
	}
	for name, c := range map[string]struct {
		provisioned *bool
		want        *step.Obstacle
	}{
		"provisioned":              {provisioned: ptr.To(true)},
		"not provisioned":          {provisioned: ptr.To(false), want: waits},
		"the Cluster says nothing": {want: waits},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
			cluster.Status.Initialization.InfrastructureProvisioned = c.provisioned
			decides(t, (*Reconciler).clusterInfrastructure, &scope{owningCluster: cluster}, c.want)
		})
	}
	t.Attr("rule", "IM-45 v1beta2")
}
