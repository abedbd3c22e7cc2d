package v1beta2

// Condition types. Each names the positive state; Ready sums up the others of its object (IM-30, IC-28).
const (
	// ReadyCondition is True while the object does its work: from the end of provisioning until deletion starts.
	ReadyCondition = "Ready"

	// PausedCondition is True while reconciliation is paused by the Cluster or the annotation (IM-65, IC-43).
	PausedCondition = "Paused"

	// EndpointReadyCondition of a CapstanCluster: the control plane endpoint is known and something listens there (IC-49).
	EndpointReadyCondition = "EndpointReady"

	// HostClaimedCondition of a CapstanMachine: a host is claimed for it.
	HostClaimedCondition = "HostClaimed"

	// BootstrappedCondition of a CapstanMachine: the agent ran the bootstrap data to its end.
	BootstrappedCondition = "Bootstrapped"

	// HostOnlineCondition of a CapstanMachine and of a CapstanHost: the agent's heartbeat arrives.
	HostOnlineCondition = "HostOnline"

	// CleanCondition of a CapstanHost: nothing of an earlier claim is left on it.
	CleanCondition = "Clean"

	// DrainedCondition of a CapstanHost is True when no machine has a host that shall be drained; until then the message
	// says what that waits for. It is absent while nobody asks for it.
	DrainedCondition = "Drained"

	// LinkedCondition of a CapstanHost is False while its claim belongs to no Cluster: the CapstanMachine, its Machine or
	// the Cluster doesn't exist. It is absent otherwise.
	LinkedCondition = "Linked"

	// ReconciledCondition is False while the controller's passes over the object fail; the message says in what and
	// what to do. It is absent while they succeed.
	ReconciledCondition = "Reconciled"
)

// Reasons of conditions.
const (
	// ReadyReason says that the condition is True because everything it sums up is right.
	ReadyReason = "Ready"

	// WaitingForOwnerReason: Cluster API has not set the owner reference yet (IM-41, IC-46).
	WaitingForOwnerReason = "WaitingForOwner"

	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet (IM-45).
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"

	// WaitingForBootstrapDataReason: Machine.spec.bootstrap.dataSecretName is not set yet (IM-48).
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// BootstrapDataRefusedReason: the Secret that dataSecretName names is not proved to hold data of this Machine; the
	// message says what is missing.
	BootstrapDataRefusedReason = "BootstrapDataRefused"

	// WaitingForEndpointReason: neither the user nor a balancer has supplied the control plane endpoint (IC-18).
	WaitingForEndpointReason = "WaitingForEndpoint"

	// EndpointFailedReason: the balancer could not be made or changed.
	EndpointFailedReason = "EndpointFailed"

	// EndpointMovedReason: the balancer came back at another address than the machines know; nothing but a new cluster helps (IC-29).
	EndpointMovedReason = "EndpointMoved"

	// NoHostMatchesReason: no host of the inventory fits; the message counts why.
	NoHostMatchesReason = "NoHostMatches"

	// HostClaimedReason: a host is claimed.
	HostClaimedReason = "HostClaimed"

	// HostStartingReason: the claimed host is being powered on or its agent enrolls.
	HostStartingReason = "HostStarting"

	// BootstrappingReason: the agent runs the bootstrap data.
	BootstrappingReason = "Bootstrapping"

	// BootstrapSucceededReason: the bootstrap data ran to its end.
	BootstrapSucceededReason = "BootstrapSucceeded"

	// BootstrapFailedReason: the bootstrap data failed; it is not tried again, the Machine must be replaced.
	BootstrapFailedReason = "BootstrapFailed"

	// HostOnlineReason: heartbeats arrive.
	HostOnlineReason = "HostOnline"

	// HostOfflineReason: no heartbeat for longer than the limit.
	HostOfflineReason = "HostOffline"

	// AgentOutdatedReason: the agent is of a version that does not know epochs; it must be updated.
	AgentOutdatedReason = "AgentOutdated"

	// TokenOutdatedReason: the agent's token is not of the host's present epoch.
	TokenOutdatedReason = "TokenOutdated"

	// HostOffReason: a supplied host is powered off because nobody claims it.
	HostOffReason = "HostOff"

	// HostGoneReason: the claimed CapstanHost was deleted, or released from this machine; nothing but a new machine helps.
	HostGoneReason = "HostGone"

	// MachineGoneReason: the CapstanMachine that claims the host no longer exists, and nobody released the claim.
	MachineGoneReason = "MachineGone"

	// UnlinkedReason: the claim of the host belongs to no Cluster; the message says what is missing.
	UnlinkedReason = "Unlinked"

	// LeftBehindReason: that has lasted longer than the limit; the message says what to do.
	LeftBehindReason = "LeftBehind"

	// DrainedReason: no machine has the host, as asked for.
	DrainedReason = "Drained"

	// InMaintenanceReason: no machine has the host, and somebody works on it.
	InMaintenanceReason = "InMaintenance"

	// WaitingForMachineReason: the machine on the host is being deleted.
	WaitingForMachineReason = "WaitingForMachine"

	// ControlPlaneAtRiskReason: without the machine on the host, its control plane would be gone or without majority.
	ControlPlaneAtRiskReason = "ControlPlaneAtRisk"

	// RateLimitedReason: much is done to hosts at once, and this waits for its turn.
	RateLimitedReason = "RateLimited"

	// SupplierMissingReason: the host comes from a supplier that this controller does not have.
	SupplierMissingReason = "SupplierMissing"

	// NameTakenReason: the host needs an object under a name that another object has; the message says which.
	NameTakenReason = "NameTaken"

	// CleanReason: nothing of an earlier claim is left.
	CleanReason = "Clean"

	// CleaningReason: the host is being cleaned after a release.
	CleaningReason = "Cleaning"

	// LeftoversFoundReason: cleaning ended and something is left; the host is quarantined.
	LeftoversFoundReason = "LeftoversFound"
	// CarriesMachineReason: the host has no claim, and its agent still has a machine of an earlier one to clean up after.
	CarriesMachineReason = "CarriesMachine"
	// NotComparedReason: the claim asks for a comparison with what the host was before, and the agent has not made it; the
	// host is quarantined.
	NotComparedReason = "NotCompared"
	// ReimageNeededReason: the host is to be installed anew after each machine; it is quarantined until somebody says that
	// it was.
	ReimageNeededReason = "ReimageNeeded"
	// AbandonedReason: an administrator has given up waiting until the host is clean; it is quarantined until it is, or deleted.
	AbandonedReason = "Abandoned"

	// InUseReason: the host carries a machine.
	InUseReason = "InUse"

	// NoReasonReportedReason stands for the reason of a condition that was written without one, which only v1beta1 allows.
	NoReasonReportedReason = "NoReasonReported"

	// StepFailedReason: a step of the controller fails and is tried again; the message names the step and its error.
	StepFailedReason = "StepFailed"

	// AccessDeniedReason: the API server refuses the controller what a step needs; the message names the step and the
	// right.
	AccessDeniedReason = "AccessDenied"

	// DeletingReason: the object is being deleted.
	DeletingReason = "Deleting"
)
