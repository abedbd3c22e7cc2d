package v1beta2

// Condition types. Each names the positive state; Ready sums up the others of its object (IM-30, IC-28).
const (
	// ReadyCondition is True while the object does its work: from the end of provisioning until deletion starts.
	ReadyCondition = "Ready"

	// PausedCondition is True while spec.paused of the Cluster or the paused annotation of the object pauses
	// reconciliation (IM-65, IC-43).
	PausedCondition = "Paused"

	// EndpointReadyCondition: the control plane endpoint of the CapstanCluster is known, and something listens there
	// (IC-49).
	EndpointReadyCondition = "EndpointReady"

	// HostClaimedCondition: the CapstanMachine has claimed a host.
	HostClaimedCondition = "HostClaimed"

	// BootstrappedCondition: the agent on the CapstanMachine's host ran the bootstrap data to the end.
	BootstrappedCondition = "Bootstrapped"

	// HostOnlineCondition: the heartbeats of the host's agent arrive. CapstanHosts and CapstanMachines have this
	// condition.
	HostOnlineCondition = "HostOnline"

	// CleanCondition: nothing of an earlier claim is left on the CapstanHost.
	CleanCondition = "Clean"

	// DrainedCondition: the CapstanHost is to be drained, and no machine has it. While the condition is False, its
	// message says what the drain waits for. If the host's spec does not ask for a drain, the condition is absent.
	DrainedCondition = "Drained"

	// LinkedCondition is False while the CapstanMachine, Machine or Cluster of a CapstanHost's claim is missing.
	// Otherwise, the condition is absent.
	LinkedCondition = "Linked"

	// ReconciledCondition is False while the controller keeps failing to reconcile the object. The message names the step
	// and what to do. Otherwise, the condition is absent.
	ReconciledCondition = "Reconciled"
)

// Reasons of conditions.
const (
	// ReadyReason: everything that the condition sums up is right.
	ReadyReason = "Ready"

	// WaitingForOwnerReason: Cluster API has not set the owner reference yet (IM-41, IC-46).
	WaitingForOwnerReason = "WaitingForOwner"

	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet (IM-45).
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"

	// WaitingForBootstrapDataReason: Machine.spec.bootstrap.dataSecretName is not set yet (IM-48).
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// BootstrapDataRefusedReason: the Secret in dataSecretName lacks a proof that it holds data of this Machine. The
	// message says what is missing.
	BootstrapDataRefusedReason = "BootstrapDataRefused"

	// WaitingForEndpointReason: the control plane endpoint is missing. The user or a balancer must supply it (IC-18).
	WaitingForEndpointReason = "WaitingForEndpoint"

	// EndpointFailedReason: the controller could not create, change or remove the balancer.
	EndpointFailedReason = "EndpointFailed"

	// EndpointMovedReason: the balancer now listens at an address that the machines don't know. Create the cluster again
	// (IC-29).
	EndpointMovedReason = "EndpointMoved"

	// NoHostMatchesReason: no host of the inventory fits the machine. The message counts the reasons.
	NoHostMatchesReason = "NoHostMatches"

	// HostClaimedReason: the machine has claimed a host.
	HostClaimedReason = "HostClaimed"

	// HostStartingReason: the host is being powered on, or its agent has not reported yet.
	HostStartingReason = "HostStarting"

	// BootstrappingReason: the agent is running the bootstrap data.
	BootstrappingReason = "Bootstrapping"

	// BootstrapSucceededReason: the bootstrap data ran to the end.
	BootstrapSucceededReason = "BootstrapSucceeded"

	// BootstrapFailedReason: the bootstrap data failed. The agent does not try again, so the Machine must be replaced.
	BootstrapFailedReason = "BootstrapFailed"

	// HostOnlineReason: the heartbeats of the host's agent arrive.
	HostOnlineReason = "HostOnline"

	// HostOfflineReason: no heartbeat has arrived for longer than the limit.
	HostOfflineReason = "HostOffline"

	// AgentOutdatedReason: the agent's version does not support epochs. Update the agent.
	AgentOutdatedReason = "AgentOutdated"

	// TokenOutdatedReason: the agent's token belongs to an earlier epoch of the host.
	TokenOutdatedReason = "TokenOutdated"

	// HostOffReason: a supplied host is powered off because nobody claims it.
	HostOffReason = "HostOff"

	// HostGoneReason: the claimed CapstanHost was deleted, or its claim was released. Replace the machine.
	HostGoneReason = "HostGone"

	// MachineGoneReason: the CapstanMachine that claimed the host no longer exists, and nobody released the claim.
	MachineGoneReason = "MachineGone"

	// UnlinkedReason: the Machine or the Cluster of the host's claim is missing. The message says which.
	UnlinkedReason = "Unlinked"

	// LeftBehindReason: the Machine or the Cluster of the host's claim has been missing for longer than the limit. The
	// message says what to do.
	LeftBehindReason = "LeftBehind"

	// DrainedReason: no machine has the host, and none can claim it.
	DrainedReason = "Drained"

	// InMaintenanceReason: the host is in maintenance, and no machine has it.
	InMaintenanceReason = "InMaintenance"

	// WaitingForMachineReason: the machine on the host is being deleted.
	WaitingForMachineReason = "WaitingForMachine"

	// ControlPlaneAtRiskReason: the drain of the host would remove the last member of a control plane, or would leave the
	// control plane without a majority.
	ControlPlaneAtRiskReason = "ControlPlaneAtRisk"

	// RateLimitedReason: the operation waits, because the rate of claims and of power operations is limited.
	RateLimitedReason = "RateLimited"

	// SupplierMissingReason: this controller does not have the supplier of the host, or the supplier does not supply this
	// host.
	SupplierMissingReason = "SupplierMissing"

	// NameTakenReason: another object already has a name that the host needs. The message names the object.
	NameTakenReason = "NameTaken"

	// CleanReason: nothing of an earlier claim is left.
	CleanReason = "Clean"

	// CleaningReason: the host is being cleaned after a release.
	CleaningReason = "Cleaning"

	// LeftoversFoundReason: cleaning finished but left something behind, so the host is quarantined.
	LeftoversFoundReason = "LeftoversFound"

	// CarriesMachineReason: the host has no claim, but its agent still has to clean up after an earlier machine.
	CarriesMachineReason = "CarriesMachine"

	// NotComparedReason: the claim asks for a comparison with the state that the host had before the claim, but the agent
	// has not compared with that state. So the host is quarantined.
	NotComparedReason = "NotCompared"

	// ReimageNeededReason: the host must be reinstalled after each machine. It is quarantined until somebody confirms the
	// reinstallation.
	ReimageNeededReason = "ReimageNeeded"

	// AbandonedReason: an administrator gave up on cleaning the host. It is quarantined until it is clean or deleted.
	AbandonedReason = "Abandoned"

	// InUseReason: the host carries a machine.
	InUseReason = "InUse"

	// NoReasonReportedReason replaces the empty reason of a v1beta1 condition, because v1beta2 requires a reason.
	NoReasonReportedReason = "NoReasonReported"

	// StepFailedReason: a step of the controller fails, and the controller retries it. The message names the step and its
	// error.
	StepFailedReason = "StepFailed"

	// AccessDeniedReason: the API server denies the controller a right that a step needs. The message names the step and
	// the right.
	AccessDeniedReason = "AccessDenied"

	// DeletingReason: the object is being deleted.
	DeletingReason = "Deleting"
)
