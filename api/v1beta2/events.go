package v1beta2

// Reasons of Events. An Event of any other reason repeats condition Ready: it has the condition's reason and message.
const (
	// HostClaimedEvent of a CapstanMachine: a host was claimed for the machine.
	HostClaimedEvent = "HostClaimed"

	// BootstrappedEvent of a CapstanMachine: its host ran the bootstrap data to the end.
	BootstrappedEvent = "Bootstrapped"

	// BootstrapFailedEvent of a CapstanMachine: the bootstrap data failed on the host; the message has the step and its
	// error.
	BootstrapFailedEvent = "BootstrapFailed"

	// ReplacementRequestedEvent of a CapstanMachine: its Machine was annotated after a failed bootstrap, so that a
	// MachineHealthCheck replaces it.
	ReplacementRequestedEvent = "ReplacementRequested"

	// HostReleasedEvent of a CapstanMachine that is being deleted: its claim of the host was released.
	HostReleasedEvent = "HostReleased"

	// HostAbandonedEvent of a CapstanMachine that is being deleted: an administrator gave up its host before it was clean.
	HostAbandonedEvent = "HostAbandoned"

	// NodeLeftEvent of a CapstanMachine that is being deleted: the cluster's API server did not answer for too long, so
	// the Node may still exist.
	NodeLeftEvent = "NodeLeft"

	// PoweredOnEvent of a CapstanHost: its supplier powered it on for a machine.
	PoweredOnEvent = "PoweredOn"

	// DrainingEvent of a CapstanHost: its Machine was deleted because the host is to be drained.
	DrainingEvent = "Draining"

	// ReturnedEvent of a CapstanHost: its claim ended, and other machines can claim it; the message says what proved it
	// clean.
	ReturnedEvent = "Returned"

	// MachineDeletedEvent of a CapstanCluster that is being deleted: the controller deleted a machine whose control plane
	// no longer exists.
	MachineDeletedEvent = "MachineDeleted"
)
