package machine

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
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
	// paused says why nothing is done; set by pause. Empty: not paused.
	paused string
	// data is the bootstrap data, if a step needed it.
	data *bootstrapdata.Data
	// host is the claimed host; set by claimHost and findClaim. Nil: none.
	host *infrav1.CapstanHost
	// lost says why the host that the machine once claimed can't be used any more; set by claimHost.
	lost string
	// wait says what keeps the machine from having a host, or its data.
	wait *wait
	// leaving says what a deletion waits for; set by release.
	leaving string
	// done is true when the agent has run the bootstrap data and the provider id is written; set by provisioned.
	done bool
	// gone is true when our finalizer is removed: there is no status to write any more.
	gone bool
}

// wait is what a machine waits for.
type wait struct {
	reason, message string
	// short is true for what usually takes a moment only.
	short bool
}
