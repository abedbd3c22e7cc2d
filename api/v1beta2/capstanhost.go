package v1beta2

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EnrolledLabel is on every CapstanHost of a computer that has enrolled with a credential, with the value "true". A
// cluster whose load balancer has type Local never claims such a host, because its load balancer reaches only local
// hosts.
const EnrolledLabel = "infrastructure.capstan.dev/enrolled"

// HostFinalizer keeps a CapstanHost until no machine claims it and its identity and local host are deleted.
const HostFinalizer = "infrastructure.capstan.dev/capstanhost"

// AbandonAnnotation on an owned CapstanHost lets a machine that released the host be deleted before the agent has
// cleaned the host. It is meant for a computer that never comes back. Its value is the provider id of the machine's
// claim, so it never applies to another claim. The claim stays and keeps the host out of the pool until the agent
// proves the host clean after all, or somebody deletes the CapstanHost.
const AbandonAnnotation = "infrastructure.capstan.dev/abandon"

// AcceptAnnotation on an owned CapstanHost says that somebody inspected the host after a claim and declares it clean:
// it was reinstalled, or the leftovers may stay. Its value is the provider id of that claim, so it never applies to
// another claim. The claim is cleared, and the host can be used again.
//
// It also works without a claim, for the machine that status.agent.carries names: the agent cleans up after that
// machine and then treats what is left as accepted.
const AcceptAnnotation = "infrastructure.capstan.dev/accept"

// AcceptedAnnotation holds the provider id of the last claim that ended because somebody accepted the host. An agent
// that was away at that time learns from it that the machine's leftovers may stay. The controller writes it.
const AcceptedAnnotation = "infrastructure.capstan.dev/accepted"

// ZoneAttributePrefix is the prefix of labels of a CapstanHost that describe its zone. Each becomes an attribute of the
// failure domain, with the rest of the label as its key. An attribute is omitted if the hosts of the zone have
// different values for it.
const ZoneAttributePrefix = "zone.infrastructure.capstan.dev/"

// SupplierDock is the spec.supplier of hosts that the management plane makes on its own machine.
const SupplierDock = "dock"

// BootstrapSecretSuffix follows a host's name in the name of the Secret with its bootstrap data. The Secret's keys are
// value (the data), format (cloud-config) and metadata (InstanceData as JSON).
const BootstrapSecretSuffix = "-bootstrap"

// BootstrapDataLabel lets Machines use a Secret of their namespace as bootstrap data by its name, without a configRef.
// Its value doesn't matter.
const BootstrapDataLabel = "infrastructure.capstan.dev/bootstrap-data"

// EpochSecretInfix separates a host's name from the number of an epoch in the name of that epoch's Secret. The Secret
// has no data. The host's tokens are bound to the Secret and become invalid when it is deleted.
const EpochSecretInfix = "-epoch-"

// IdentityPrefix precedes a host's name in the name of its ServiceAccount, Role and RoleBinding.
const IdentityPrefix = "host-"

// AgentUpgrade says who replaces the agent of an owned host.
type AgentUpgrade string

// Values of AgentUpgrade.
const (
	// AgentUpgradeAutomatic: the agent replaces itself when its plane has a later version.
	AgentUpgradeAutomatic AgentUpgrade = "Automatic"
	// AgentUpgradeManual: people or other programs replace it.
	AgentUpgradeManual AgentUpgrade = "Manual"
)

// CapstanHostSpec is the desired state of a CapstanHost. Everything that must survive a move to another management
// cluster is here, because a move does not restore status.
// +kubebuilder:validation:XValidation:rule="has(self.supplier) == has(oldSelf.supplier) && (!has(self.supplier) || self.supplier == oldSelf.supplier)",message="supplier can't be changed: delete the host and enroll it again"
// +kubebuilder:validation:XValidation:rule="(has(self.epoch) ? self.epoch : 0) == (has(oldSelf.epoch) ? oldSelf.epoch : 0) + (has(oldSelf.claim) && !has(self.claim) ? 1 : 0)",message="epoch grows by one in the write that clears the claim, and never else: it counts the claims that have ended"
type CapstanHostSpec struct {
	// zone is the failure domain that the host is in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')",message="zone must be usable as the value of a label: letters, digits, -, _ and ., with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zone can't be changed: machines were placed by it; delete the host and enroll it again"
	Zone string `json:"zone,omitempty"`

	// supplier powers the host on when it is claimed, and destroys and recreates it when it is released. Empty means that
	// the host is owned: its administrator runs it and its agent.
	// +optional
	// +kubebuilder:validation:Enum=dock
	Supplier string `json:"supplier,omitempty"`

	// unschedulable prevents new claims. A machine that already has the host keeps it.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`

	// drain removes the machine from the host gracefully: the Machine is deleted, Cluster API drains the node, and the
	// host is cleaned. While drain is true, nothing claims the host. A machine stays if it is the last one of its control
	// plane, or if etcd would lose its majority without it. See condition Drained.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// maintenance tells people why the host is temporarily out of use. Setting it drains the host. Then the host may be
	// powered off, and its phase is Maintenance until this field is removed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Maintenance string `json:"maintenance,omitempty"`

	// agentUpgrade says who replaces the agent of an owned host. Automatic means that the agent replaces itself when its
	// plane has a later version; Manual means that it never does. Default: Automatic.
	// +optional
	// +kubebuilder:validation:Enum=Automatic;Manual
	AgentUpgrade AgentUpgrade `json:"agentUpgrade,omitempty"`

	// addresses are further addresses of the host, written by an administrator: the addresses at which other networks
	// reach it, and its DNS names. A machine's status lists them beside the address that the agent reports.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +listMapKey=address
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Addresses []HostAddress `json:"addresses,omitempty"`

	// cleaning says what proves that an owned host is clean after a machine used it. A change applies to later claims
	// only. Default: the flags of the provider.
	// +optional
	Cleaning CleaningPolicy `json:"cleaning,omitempty,omitzero"`

	// bundles says where an owned host gets the programs of a node from. A change applies to later claims only. The host's
	// own configuration overrides it. Default: the flags of the provider.
	// +optional
	Bundles BundlePolicy `json:"bundles,omitempty,omitzero"`

	// claim says which machine has the host. Only the controller sets and clears it. A claim is one update of one object,
	// so a host never has two claimants.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// epoch counts the claims of this host that have ended. Each epoch has its own tokens for the agent; those of earlier
	// epochs stop working. Only the controller writes it, when a claim ends.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
}

// HostAddressType is the type of an address that an administrator writes.
// +kubebuilder:validation:Enum=ExternalIP;ExternalDNS;InternalDNS
type HostAddressType string

// Types of a host's further addresses, named as in Cluster API.
const (
	HostExternalIP  = HostAddressType(clusterv1.MachineExternalIP)
	HostExternalDNS = HostAddressType(clusterv1.MachineExternalDNS)
	HostInternalDNS = HostAddressType(clusterv1.MachineInternalDNS)
)

// HostAddress is an address of a host (IM-27).
// +kubebuilder:validation:XValidation:rule="self.type == 'ExternalIP' ? isIP(self.address) : !isIP(self.address) && self.address.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$')",message="address must be an IP address for type ExternalIP, and a DNS name in lower case for ExternalDNS and InternalDNS"
type HostAddress struct {
	// type is ExternalIP, ExternalDNS or InternalDNS. Hostname and InternalIP can't be set here: they come from the
	// machine and from the agent's report.
	// +required
	Type HostAddressType `json:"type,omitempty"`

	// address is an IP address or a DNS name, as type says.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`
}

// HostClaim gives a host to one CapstanMachine.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.baseline) || has(self.baseline) && self.baseline == oldSelf.baseline",message="baseline can't be changed: it was taken before the machine came"
// +kubebuilder:validation:XValidation:rule="has(self.proof) == has(oldSelf.proof) && (!has(self.proof) || self.proof == oldSelf.proof)",message="proof can't be changed during a claim"
// +kubebuilder:validation:XValidation:rule="self.machineUID == oldSelf.machineUID && self.machine == oldSelf.machine && self.providerID == oldSelf.providerID",message="a claim can't pass from one machine to another: clear it first"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.released) && oldSelf.released) || (has(self.released) && self.released)",message="a released claim can't be taken back"
type HostClaim struct {
	// machine is the name of the CapstanMachine in the host's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`

	// machineUID is the uid of the CapstanMachine at the time of the claim; with providerID it identifies the claim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	MachineUID string `json:"machineUID,omitempty"`

	// cluster is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// providerID of the instance: capstan://<namespace>/<host>/<first 8 of machineUID>.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hostname is the host name of the machine. Its Node has the same name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`

	// kubernetesVersion is Machine.spec.version, for example v1.36.3. The agent installs the bundle of this version. Empty
	// means that the bootstrap data installs Kubernetes itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// controlPlane is true if the machine belongs to the control plane.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`

	// bootstrapReady tells the agent to run the bootstrap data. The host's bootstrap Secret holds the data of this claim,
	// or is about to: the agent waits for data that is marked with providerID.
	// +optional
	BootstrapReady bool `json:"bootstrapReady,omitempty"`

	// proof says what proves that the host is clean after this claim. It is copied from spec.cleaning when the claim is
	// made. Absent means Trust: the host is not owned, or an earlier version of the provider made the claim.
	// +optional
	Proof CleaningProof `json:"proof,omitempty"`

	// bundles says where the programs of a node come from. It is copied from spec.bundles when the claim is made. If it is
	// absent, the host uses its own kubeadm and kubelet, or bundles of the plane if it has none.
	// +optional
	Bundles BundlePolicy `json:"bundles,omitempty,omitzero"`

	// baseline is used with proof Compare. It is the digest (SHA-256, base64 for URLs) of what the agent found on the host
	// before the machine used it. The agent runs the bootstrap data only after baseline is set here, so the machine can't
	// replace it.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`

	// released is true once the machine is being deleted. The host is then cleaned, and the claim is cleared when the host
	// is proved clean.
	// +optional
	Released bool `json:"released,omitempty"`
}

// HostPhase summarizes the state of a host.
// +kubebuilder:validation:Enum=Off;Enrolling;Available;Claimed;Bootstrapping;InUse;Cleaning;Quarantined;Offline;Maintenance
type HostPhase string

// Phases of a host.
const (
	// HostOff: a supplied host that nobody claims; it is powered on when claimed.
	HostOff HostPhase = "Off"
	// HostEnrolling: no agent has reported yet.
	HostEnrolling HostPhase = "Enrolling"
	// HostAvailable: an agent reports and nobody claims the host.
	HostAvailable HostPhase = "Available"
	// HostClaimed: claimed; waits for power, agent or bootstrap data.
	HostClaimed HostPhase = "Claimed"
	// HostBootstrapping: the agent runs the bootstrap data.
	HostBootstrapping HostPhase = "Bootstrapping"
	// HostInUse: the host carries a machine.
	HostInUse HostPhase = "InUse"
	// HostCleaning: released; the agent or the supplier cleans it.
	HostCleaning HostPhase = "Cleaning"
	// HostQuarantined: cleaning left something behind, see condition Clean.
	HostQuarantined HostPhase = "Quarantined"
	// HostOffline: the heartbeat stopped.
	HostOffline HostPhase = "Offline"
	// HostMaintenance: an administrator works on it, and no machine has it; it may be off.
	HostMaintenance HostPhase = "Maintenance"
)

// CapstanHostStatus is the observed state of a CapstanHost.
// +kubebuilder:validation:MinProperties=1
type CapstanHostStatus struct {
	// conditions are Ready, HostOnline, Clean and Paused; Drained while spec asks for a drain; Linked while the claim
	// belongs to no Cluster; and Reconciled while reconciling fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase summarizes the state of the host for people. Programs should read conditions and spec.claim.
	// +optional
	Phase HostPhase `json:"phase,omitempty"`

	// agent is the report of the host's agent. The controller writes the rest of status.
	// +optional
	Agent *AgentReport `json:"agent,omitempty"`

	// kubernetesVersions are the versions that the host offers, as reported by its agent, or by its supplier while the
	// host is off. Empty means any version.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`
}

// InstanceData is what bootstrap data may refer to as {{ ds.meta_data.<key> }}; the agent adds local_ipv4.
type InstanceData struct {
	// InstanceID identifies this use of the host: the claim's providerID without the scheme.
	InstanceID string `json:"instance_id"`
	// LocalHostname is the name of the machine, and so of its Node.
	LocalHostname string `json:"local_hostname"`
	// ProviderID is what kubelet must register as Node.spec.providerID (IM-11).
	ProviderID string `json:"provider_id"`
	// Host is the name of the CapstanHost.
	Host string `json:"host"`
	// Zone is the failure domain of the host.
	Zone string `json:"zone"`
}

// CapstanHost is one Linux computer of the inventory.
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name can have 63 characters at most: it is the value of a label of everything that belongs to the host"
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanhosts,scope=Namespaced,categories=cluster-api,shortName=cph
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="State of the host"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".spec.zone",description="Failure domain of the host"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.claim.cluster",description="Cluster that has the host"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".spec.claim.machine",description="CapstanMachine that has the host"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.claim.kubernetesVersion",description="Kubernetes version on the host"
// +kubebuilder:printcolumn:name="Address",type="string",JSONPath=".status.agent.address",description="Internal IP address",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].message",description="Why it is in this phase",priority=1
type CapstanHost struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec CapstanHostSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status CapstanHostStatus `json:"status,omitempty,omitzero"`
}

// EpochSecret returns the name of the Secret to which the tokens of an epoch of the host are bound.
func EpochSecret(host string, epoch int64) string {
	return host + EpochSecretInfix + strconv.FormatInt(epoch, 10)
}

// Drains reports whether the spec asks to remove the machine from the host.
func (s *CapstanHostSpec) Drains() bool { return s.Drain || s.Maintenance != "" }

// Closed reports whether the spec prevents new claims.
func (s *CapstanHostSpec) Closed() bool { return s.Unschedulable || s.Drains() }

// GetConditions returns the conditions of the object.
func (h *CapstanHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (h *CapstanHost) SetConditions(conditions []metav1.Condition) { h.Status.Conditions = conditions }

// CapstanHostList is a list of CapstanHosts.
// +kubebuilder:object:root=true
type CapstanHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanHost `json:"items"`
}
