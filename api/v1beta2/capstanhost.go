package v1beta2

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EnrolledLabel is on every CapstanHost of a computer that has enrolled with a credential, with the value "true". A
// cluster whose load balancer has type Local takes no host with it: its balancer reaches only local hosts.
const EnrolledLabel = "infrastructure.capstan.dev/enrolled"

// HostFinalizer holds a CapstanHost while a machine claims it, and until its identity and local host are gone.
const HostFinalizer = "infrastructure.capstan.dev/capstanhost"

// AbandonAnnotation on an owned CapstanHost lets the machine go that has released it, without waiting until the agent
// has cleaned the host: for a computer that is off for good. Its value is the provider id of that claim, so it never
// counts for another one. The claim stays, and keeps the host out of the pool, until the agent proves the host clean
// after all, or somebody deletes the CapstanHost.
const AbandonAnnotation = "infrastructure.capstan.dev/abandon"

// AcceptAnnotation on an owned CapstanHost says that somebody has looked at the host after a claim and takes it as
// clean: it was installed anew, or what was left may stay. Its value is the provider id of that claim, so it never
// counts for another one. The claim is cleared, and the host can be used again.
//
// It also counts for a machine that status.agent.carries names, without a claim: the agent cleans after it, and then
// takes what is left as accepted.
const AcceptAnnotation = "infrastructure.capstan.dev/accept"

// AcceptedAnnotation keeps the provider id of the last claim that ended because somebody accepted the host. Its agent
// may have been away meanwhile: it learns here that what it finds of that machine may stay. Written by the controller.
const AcceptedAnnotation = "infrastructure.capstan.dev/accepted"

// ZoneAttributePrefix begins the labels of a CapstanHost that say something of its zone: with the rest of the label as
// key they become attributes of the failure domain. Hosts of one zone that differ in a value leave it out.
const ZoneAttributePrefix = "zone.infrastructure.capstan.dev/"

// SupplierDock is the spec.supplier of hosts that the management plane makes on its own machine.
const SupplierDock = "dock"

// BootstrapSecretSuffix is appended to a host's name to give the name of the Secret with its bootstrap data: keys value
// (the data), format (cloud-config) and metadata (JSON of InstanceData).
const BootstrapSecretSuffix = "-bootstrap"

// BootstrapDataLabel on a Secret says that Machines of its namespace may use it as bootstrap data by name, without a
// configRef. Its value doesn't matter.
const BootstrapDataLabel = "infrastructure.capstan.dev/bootstrap-data"

// EpochSecretInfix stands between a host's name and the number of an epoch in the name of that epoch's Secret. The
// Secret has no data: tokens of the host's account are bound to it, and end with it.
const EpochSecretInfix = "-epoch-"

// IdentityPrefix is put before a host's name to give the name of its ServiceAccount, Role and RoleBinding.
const IdentityPrefix = "host-"

// AgentUpgrade says who replaces the agent of an owned host.
type AgentUpgrade string

// Values of AgentUpgrade.
const (
	// AgentUpgradeAutomatic: the agent itself, when its plane has a later one.
	AgentUpgradeAutomatic AgentUpgrade = "Automatic"
	// AgentUpgradeManual: somebody else.
	AgentUpgradeManual AgentUpgrade = "Manual"
)

// CapstanHostSpec is the wanted state of a CapstanHost. What matters stands here and not in status, because status is
// not restored when objects move to another management cluster.
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

	// supplier powers the host on when it is claimed, and destroys and makes it again when it is released. Empty: the
	// host is owned; somebody else runs it and the agent on it.
	// +optional
	// +kubebuilder:validation:Enum=dock
	Supplier string `json:"supplier,omitempty"`

	// unschedulable keeps new claims away. A machine that is on the host stays.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`

	// drain lets the machine on the host go in good order: its Machine is deleted, Cluster API drains the node, and the
	// host is cleaned. While it is true there is no new claim. The last machine of a control plane stays, and so does one
	// without which etcd would lose its majority. See condition Drained.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// maintenance says why the host is out of use for a while, for people. It drains the host; when that is done, the host
	// may be off, and its phase is Maintenance until this is removed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Maintenance string `json:"maintenance,omitempty"`

	// agentUpgrade says whether the agent of an owned host replaces itself when its plane has a later one: Automatic,
	// which is what absent means, or Manual.
	// +optional
	// +kubebuilder:validation:Enum=Automatic;Manual
	AgentUpgrade AgentUpgrade `json:"agentUpgrade,omitempty"`

	// addresses are further addresses of the host that an administrator knows: those under which other networks reach
	// it, and its names. A machine shows them beside the address that the agent reports. The host is not asked for them.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +listMapKey=address
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Addresses []HostAddress `json:"addresses,omitempty"`

	// cleaning says what it takes until an owned host is clean after a machine. It counts for claims that are made after
	// it was written. Absent: what the provider was started with.
	// +optional
	Cleaning CleaningPolicy `json:"cleaning,omitempty,omitzero"`

	// bundles says where an owned host gets the programs of a node from. It counts for claims that are made after it was
	// written, unless the host's own configuration says otherwise. Absent: what the provider was started with.
	// +optional
	Bundles BundlePolicy `json:"bundles,omitempty,omitzero"`

	// claim says which machine has the host. Set and cleared by the controller only; one update of one object, so a host
	// has at most one claimant.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// epoch counts the claims of this host that have ended. Each epoch has its own tokens for the agent: those of an
	// earlier one stop working. Written by the controller only, with the end of a claim.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
}

// HostAddressType is the type of an address that an administrator knows.
// +kubebuilder:validation:Enum=ExternalIP;ExternalDNS;InternalDNS
type HostAddressType string

// Types of a host's further addresses, by the names of Cluster API.
const (
	HostExternalIP  = HostAddressType(clusterv1.MachineExternalIP)
	HostExternalDNS = HostAddressType(clusterv1.MachineExternalDNS)
	HostInternalDNS = HostAddressType(clusterv1.MachineInternalDNS)
)

// HostAddress is an address of a host (IM-27).
// +kubebuilder:validation:XValidation:rule="self.type == 'ExternalIP' ? isIP(self.address) : !isIP(self.address) && self.address.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$')",message="address must be an IP address for type ExternalIP, and a DNS name in lower case for ExternalDNS and InternalDNS"
type HostAddress struct {
	// type is ExternalIP, ExternalDNS or InternalDNS. Hostname and InternalIP are not said here: they are those of the
	// machine and of the agent's report.
	// +required
	Type HostAddressType `json:"type,omitempty"`

	// address is an IP address or a DNS name, as type says.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`
}

// HostClaim is the right of one CapstanMachine to a host.
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

	// hostname is the name that the machine shall have, and so its Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`

	// kubernetesVersion is Machine.spec.version: the bundle that the agent installs, for example v1.36.3. Empty: the
	// bootstrap data brings its own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// controlPlane is true if the machine belongs to the control plane.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`

	// bootstrapReady lets the agent begin with the bootstrap data. The host's bootstrap Secret holds the data of this
	// claim, or will in a moment: the agent waits for data that is marked with providerID.
	// +optional
	BootstrapReady bool `json:"bootstrapReady,omitempty"`

	// proof says what proves that the host is clean after this claim: spec.cleaning as it was when the claim was made.
	// Absent: the claim is of a provider that did not know it, or the host is not an owned one; Trust.
	// +optional
	Proof CleaningProof `json:"proof,omitempty"`

	// bundles says where the programs of a node come from: spec.bundles as it was when the claim was made. Absent: the
	// host's own if it has kubeadm and kubelet, else as Plane.
	// +optional
	Bundles BundlePolicy `json:"bundles,omitempty,omitzero"`

	// baseline is the digest (SHA-256, base64 for URLs) of what the agent saw before the machine came, with proof
	// Compare. The agent begins with the bootstrap data once it is set here, so the machine can't exchange it.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`

	// released is true when the machine goes away: the host is cleaned, and the claim cleared when that is proved.
	// +optional
	Released bool `json:"released,omitempty"`
}

// HostPhase sums up where a host is in its life.
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
	// conditions are Ready, HostOnline, Clean, Paused, Drained while spec asks for it, Linked while a claim belongs to no
	// Cluster, and Reconciled while that fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase sums up where the host is in its life. For people; programs look at conditions and spec.claim.
	// +optional
	Phase HostPhase `json:"phase,omitempty"`

	// agent is what the agent says; the rest of status is what the controller concludes.
	// +optional
	Agent *AgentReport `json:"agent,omitempty"`

	// kubernetesVersions that the host offers: those of the agent, or of the supplier for a host that is off. Empty: any.
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
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="Where the host is in its life"
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

	// spec is the wanted state.
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

// Drains reports whether the machine on the host shall go.
func (s *CapstanHostSpec) Drains() bool { return s.Drain || s.Maintenance != "" }

// Closed reports whether an administrator keeps new claims away.
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
