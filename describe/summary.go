package describe

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/internal/text"
)

// Summary describes a cluster in one line. Its JSON form is stable.
type Summary struct {
	Name         string      `json:"name"`
	Phase        string      `json:"phase"`
	Available    string      `json:"available"`
	ControlPlane string      `json:"controlPlane"`
	Workers      string      `json:"workers"`
	Version      string      `json:"version"`
	Endpoint     string      `json:"endpoint"`
	Created      metav1.Time `json:"created"`
	Message      string      `json:"message,omitempty"`
}

// Summarize returns the summary of a cluster.
func Summarize(cluster *clusterv1.Cluster) Summary {
	row := Summary{
		Name: cluster.Name, Phase: cluster.Status.Phase, Available: "Unknown",
		Version: cluster.Spec.Topology.Version, Created: cluster.CreationTimestamp,
		ControlPlane: fmt.Sprintf("0/%d", ptr.Deref(cluster.Spec.Topology.ControlPlane.Replicas, 1)),
	}
	workers := int32(0)
	for _, md := range cluster.Spec.Topology.Workers.MachineDeployments {
		workers += ptr.Deref(md.Replicas, 1)
	}
	row.Workers = fmt.Sprintf("0/%d", workers)
	if s := cluster.Status.ControlPlane; s != nil {
		row.ControlPlane = fmt.Sprintf("%d/%d", ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0))
	}
	if s := cluster.Status.Workers; s != nil {
		row.Workers = fmt.Sprintf("%d/%d", ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0))
	}
	if c := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition); c != nil {
		row.Available, row.Message = string(c.Status), text.OneLine(c.Message, 80)
	}
	if e := cluster.Spec.ControlPlaneEndpoint; !e.IsZero() {
		row.Endpoint = fmt.Sprintf("%s:%d", e.Host, e.Port)
	}
	return row
}
