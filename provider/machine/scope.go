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
	// capstan is the object itself, as new as the last write of this pass.
	capstan *infrav1.CapstanMachine
	// machine is the owner; set by owner. Nil in a deletion: the owner is gone.
	machine *clusterv1.Machine
	// owned is true if there is an owner reference to a Machine, whether that exists or not; set by owner.
	owned bool
	// owningCluster is the Cluster; set by pause. Nil: there is none.
	owningCluster *clusterv1.Cluster
	// paused says why nothing is done. It begins with what the object's own annotation says; set by pause. Empty: not
	// paused.
	paused string
	// running is true when it is known that nothing is paused; set by pause.
	running bool
	// data is the bootstrap data, if a step needed it.
	data *bootstrapdata.Data
	// host is the claimed host; set by find and claimHost. Nil: none.
	host *infrav1.CapstanHost
	// extra are further hosts that the machine holds: two controllers ran at once; set with host.
	extra []*infrav1.CapstanHost
	// lost says why the host that the machine once claimed can't be used any more; set by keep.
	lost string
	// obstacle keeps the machine from having a host, or its data.
	obstacle *step.Obstacle
	// waiting says what a deletion waits for; set by release.
	waiting string
	// done is true when the agent has run the bootstrap data and the provider id is written; set by provisioned.
	done bool
	// failed is the condition Reconciled of a pass that failed; set after the steps. Nil: none.
	failed *metav1.Condition
	// gone is true when our finalizer is removed: there is no status to write any more.
	gone bool
}

// leaving reports whether the machine is being deleted.
func leaving(s *scope) bool { return !s.capstan.DeletionTimestamp.IsZero() }

// hold takes note of the hosts that the machine holds, the one to keep first.
func (s *scope) hold(held []*infrav1.CapstanHost) {
	if len(held) > 0 {
		s.host, s.extra = held[0], held[1:]
	}
}
