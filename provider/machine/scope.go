package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/step"
)

// scope holds what one pass over one CapstanMachine has found out.
type scope struct {
	// capstan is the object itself, including the last write of this pass.
	capstan *infrav1.CapstanMachine
	// machine is the owner; set by owner. Nil if it does not exist, for example late in a deletion.
	machine *clusterv1.Machine
	// owned is true if there is an owner reference to a Machine, even if the Machine does not exist; set by owner.
	owned bool
	// owningCluster is the Cluster, or nil if it does not exist; set by pause.
	owningCluster *clusterv1.Cluster
	// local is true if the Cluster's balancer reaches only local hosts; set by clusterInfrastructure.
	local bool
	// paused says why the object is paused; "" if it is not. At first it only reflects the object's own annotation; the
	// step pause also considers the Cluster.
	paused string
	// running is true once the step pause has found that neither the Cluster nor the object is paused.
	running bool
	// data is the bootstrap data, if a step needed it.
	data *bootstrapdata.Data
	// host is the claimed host, or nil; set by find and claimHost.
	host *infrav1.CapstanHost
	// extra are further hosts that the machine holds, which happens only if two controllers ran at once; set with host.
	extra []*infrav1.CapstanHost
	// lost says why the machine can no longer use the host that it claimed; set by keep.
	lost string
	// obstacle says why the machine has no host or no bootstrap data.
	obstacle *step.Obstacle
	// waiting says what a deletion waits for; set by release.
	waiting string
	// done is true when the agent has run the bootstrap data and the provider id is written; set by provisioned.
	done bool
	// failed is the condition Reconciled of a failed pass, or nil; set after the steps.
	failed *metav1.Condition
	// gone is true once our finalizer is removed: there is no status left to write.
	gone bool
}

// leaving reports whether the machine is being deleted.
func leaving(s *scope) bool { return !s.capstan.DeletionTimestamp.IsZero() }

// hold stores the hosts that the machine holds. The one to keep comes first.
func (s *scope) hold(held []*infrav1.CapstanHost) {
	if len(held) > 0 {
		s.host, s.extra = held[0], held[1:]
	}
}
