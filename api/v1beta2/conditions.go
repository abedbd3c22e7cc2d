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

	// BootstrappedCondition of a CapstanMachine: the agent ran the bootstrap data to the end.
	BootstrappedCondition = "Bootstrapped"

	// HostOnlineCondition of a CapstanMachine and of a CapstanHost: the agent's heartbeat arrives.
	HostOnlineCondition = "HostOnline"

	// CleanCondition of a CapstanHost: nothing of an earlier claim is left on it.
	CleanCondition = "Clean"

	// DrainedCondition of a CapstanHost that is to be drained: no machine has it. While it is False, the message says what
	// the drain waits for. It is absent unless the host's spec asks for a drain.
	DrainedCondition = "Drained"

	// LinkedCondition of a CapstanHost: it is False while the host's claim lacks its CapstanMachine, Machine or Cluster,
	// and absent otherwise.
	LinkedCondition = "Linked"

	// ReconciledCondition is False while the controller keeps failing to reconcile the object; the message names the step
	// and what to do. It is absent otherwise.
	ReconciledCondition = "Reconciled"
)

// Reasons of conditions.
const (
	// ReadyReason: the condition is True because everything it sums up is right.
	ReadyReason = "Ready"

	// WaitingForOwnerReason: Cluster API has not set the owner reference yet (IM-41, IC-46).
	WaitingForOwnerReason = "WaitingForOwner"

	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet (IM-45).
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"

	// WaitingForBootstrapDataReason: Machine.spec.bootstrap.dataSecretName is not set yet (IM-48).
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// BootstrapDataRefusedReason: nothing proves that the Secret in dataSecretName holds data of this Machine; the message
	// says what is missing.
	BootstrapDataRefusedReason = "BootstrapDataRefused"

	// WaitingForEndpointReason: neither the user nor a balancer has supplied the control plane endpoint (IC-18).
	WaitingForEndpointReason = "WaitingForEndpoint"

	// EndpointFailedReason: the balancer could not be made or changed.
	EndpointFailedReason = "EndpointFailed"

	// EndpointMovedReason: the balancer now listens at an address that the machines don't know; create the cluster again
	// (IC-29).
	EndpointMovedReason = "EndpointMoved"

	// NoHostMatchesReason: no host of the inventory fits; the message counts the reasons.
	NoHostMatchesReason = "NoHostMatches"

	// HostClaimedReason: a host is claimed.
	HostClaimedReason = "HostClaimed"

	// HostStartingReason: the host is being powered on, or its agent has not reported yet.
	HostStartingReason = "HostStarting"

	// BootstrappingReason: the agent runs the bootstrap data.
	BootstrappingReason = "Bootstrapping"

	// BootstrapSucceededReason: the bootstrap data ran to the end.
	BootstrapSucceededReason = "BootstrapSucceeded"

	// BootstrapFailedReason: the bootstrap data failed; it is not tried again, the Machine must be replaced.
	BootstrapFailedReason = "BootstrapFailed"

	// HostOnlineReason: heartbeats arrive.
	HostOnlineReason = "HostOnline"

	// HostOfflineReason: no heartbeat for longer than the limit.
	HostOfflineReason = "HostOffline"

	// AgentOutdatedReason: the agent's version does not support epochs; update it.
	AgentOutdatedReason = "AgentOutdated"

	// TokenOutdatedReason: the agent's token belongs to an earlier epoch of the host.
	TokenOutdatedReason = "TokenOutdated"

	// HostOffReason: a supplied host is powered off because nobody claims it.
	HostOffReason = "HostOff"

	// HostGoneReason: the claimed CapstanHost was deleted or released; replace the machine.
	HostGoneReason = "HostGone"

	// MachineGoneReason: the CapstanMachine that claimed the host no longer exists, and nobody released the claim.
	MachineGoneReason = "MachineGone"

	// UnlinkedReason: the claim of the host has no Machine or Cluster; the message says which is missing.
	UnlinkedReason = "Unlinked"

	// LeftBehindReason: the claim has had no Machine or Cluster for longer than the limit; the message says what to do.
	LeftBehindReason = "LeftBehind"

	// DrainedReason: no machine has the host, and none can claim it.
	DrainedReason = "Drained"

	// InMaintenanceReason: no machine has the host, and somebody works on it.
	InMaintenanceReason = "InMaintenance"

	// WaitingForMachineReason: the machine on the host is being deleted.
	WaitingForMachineReason = "WaitingForMachine"

	// ControlPlaneAtRiskReason: a drain of the host would remove the last member of its control plane, or its majority.
	ControlPlaneAtRiskReason = "ControlPlaneAtRisk"

	// RateLimitedReason: the operation waits for its turn, because hosts are claimed, released or powered at a limited
	// rate.
	RateLimitedReason = "RateLimited"

	// SupplierMissingReason: this controller does not have the supplier that the host comes from.
	SupplierMissingReason = "SupplierMissing"

	// NameTakenReason: another object already has a name that the host needs; the message says which.
	NameTakenReason = "NameTaken"

	// CleanReason: nothing of an earlier claim is left.
	CleanReason = "Clean"

	// CleaningReason: the host is being cleaned after a release.
	CleaningReason = "Cleaning"

	// LeftoversFoundReason: cleaning finished and left something behind; the host is quarantined.
	LeftoversFoundReason = "LeftoversFound"

	// CarriesMachineReason: the host has no claim, but its agent still has to clean up after an earlier machine.
	CarriesMachineReason = "CarriesMachine"

	// NotComparedReason: the claim asks for a comparison with the host's earlier state, and the agent has not made it; the
	// host is quarantined.
	NotComparedReason = "NotCompared"

	// ReimageNeededReason: the host is reinstalled after each machine; it is quarantined until somebody confirms that.
	ReimageNeededReason = "ReimageNeeded"

	// AbandonedReason: an administrator gave up on cleaning; the host is quarantined until it is clean or deleted.
	AbandonedReason = "Abandoned"

	// InUseReason: the host carries a machine.
	InUseReason = "InUse"

	// NoReasonReportedReason replaces the empty reason of a v1beta1 condition; v1beta2 requires one.
	NoReasonReportedReason = "NoReasonReported"

	// StepFailedReason: a step of the controller fails and is retried; the message names the step and its error.
	StepFailedReason = "StepFailed"

	// AccessDeniedReason: the API server denies the controller a right that a step needs; the message names both.
	AccessDeniedReason = "AccessDenied"

	// DeletingReason: the object is being deleted.
	DeletingReason = "Deleting"
)
