package v1beta2

// Reasons of Events. An Event of any other reason repeats condition Ready: it has the condition's reason and message.
const (
	// HostClaimedEvent: the CapstanMachine has claimed a host.
	HostClaimedEvent = "HostClaimed"

	// BootstrappedEvent: the host of the CapstanMachine ran the bootstrap data to the end.
	BootstrappedEvent = "Bootstrapped"

	// BootstrapFailedEvent: the bootstrap data of the CapstanMachine failed on its host. The message contains the failed
	// step and its error.
	BootstrapFailedEvent = "BootstrapFailed"

	// ReplacementRequestedEvent: the controller annotated the CapstanMachine's Machine after a failed bootstrap, so that
	// a MachineHealthCheck replaces the Machine.
	ReplacementRequestedEvent = "ReplacementRequested"

	// HostReleasedEvent: the CapstanMachine is being deleted, and its claim of the host was released.
	HostReleasedEvent = "HostReleased"

	// HostAbandonedEvent: the CapstanMachine is being deleted, and an administrator gave up its host before the host was
	// clean.
	HostAbandonedEvent = "HostAbandoned"

	// NodeLeftEvent: the CapstanMachine is being deleted, but the cluster's API server did not answer for too long. So
	// the Node may still exist.
	NodeLeftEvent = "NodeLeft"

	// PoweredOnEvent: the supplier of the CapstanHost powered it on for a machine.
	PoweredOnEvent = "PoweredOn"

	// DrainingEvent: the Machine on the CapstanHost was deleted, because the host is to be drained.
	DrainingEvent = "Draining"

	// ReturnedEvent: the claim of the CapstanHost ended, so other machines can claim the host. The message says what
	// proved the host clean.
	ReturnedEvent = "Returned"

	// MachineDeletedEvent: the CapstanCluster is being deleted, and the controller deleted a machine whose control plane
	// no longer exists.
	MachineDeletedEvent = "MachineDeleted"
)
