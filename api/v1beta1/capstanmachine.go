package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// CapstanMachineSpec is the desired state of a CapstanMachine.
type CapstanMachineSpec struct {
	// providerID is the identifier of the instance, capstan://<namespace>/<host>/<claim> (IM-10). The controller writes
	// it. It equals Node.spec.providerID (IM-11).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID *string `json:"providerID,omitempty"`

	// failureDomain is the zone of the claimed host, written by the controller (IM-14, IM-55). To place a machine in a
	// zone, set Machine.spec.failureDomain. v1beta2 reports the zone in its status instead (IM-15).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain *string `json:"failureDomain,omitempty"`

	// hostSelector limits placement to hosts with these labels. Default: every host of the namespace.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// hostRequirements limits placement to hosts that report at least this hardware. Default: every host.
	// +optional
	HostRequirements HostRequirements `json:"hostRequirements,omitempty,omitzero"`
}

// HostRequirements describe the hardware that a host must have. They are compared with the report of the host's agent.
// The report is not proved: a compromised host can report anything. A host that does not report a required value does
// not match. If a machine must be able to trust a property, select hosts by labels, which people write.
// +kubebuilder:validation:MinProperties=1
type HostRequirements struct {
	// architecture is the host's architecture, as Go names it.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`

	// minProcessors is the minimum number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinProcessors int32 `json:"minProcessors,omitempty"`

	// minMemoryMiB is the minimum memory in MiB. The kernel reserves some memory: a host with 8 GiB reports less than
	// 8192.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinMemoryMiB int64 `json:"minMemoryMiB,omitempty"`

	// minDiskGiB is the minimum size of the host's largest disk in GiB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinDiskGiB int64 `json:"minDiskGiB,omitempty"`
}

// CapstanMachineStatus is the observed state of a CapstanMachine. All of it can be rebuilt from specs and from what
// hosts report.
type CapstanMachineStatus struct {
	// ready is true once the host has run the bootstrap data; it never becomes false again (IM-19, IM-20).
	// +optional
	Ready bool `json:"ready"`

	// addresses are the addresses of the host (IM-27).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.type in ['Hostname', 'ExternalIP', 'InternalIP', 'ExternalDNS', 'InternalDNS'])",message="type of an address must be Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS"
	Addresses []clusterv1beta1.MachineAddress `json:"addresses,omitempty"`

	// failureReason says in one word why the machine can never be provisioned (IM-22). Only a new Machine helps.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains the failure to people (IM-23).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions are Ready, HostClaimed, Bootstrapped, HostOnline, Paused (IM-29), and Reconciled while reconciling fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.status in ['True', 'False', 'Unknown'])",message="status of a condition must be True, False or Unknown"
	Conditions []clusterv1beta1.Condition `json:"conditions,omitempty"`

	// host is the name of the claimed CapstanHost in the same namespace. It is informational: the claim itself is in the
	// host's spec.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
}

// CapstanMachine is the infrastructure of a Machine: one claimed CapstanHost (IM-01).
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.providerID) || (has(self.spec) && has(self.spec.providerID) && self.spec.providerID == oldSelf.spec.providerID)",message="spec.providerID can't be changed: it names the instance; delete the Machine to get another one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.providerID) || !has(self.spec) || (has(self.spec.hostSelector) == has(oldSelf.spec.hostSelector) && (!has(self.spec.hostSelector) || self.spec.hostSelector == oldSelf.spec.hostSelector))",message="spec.hostSelector can't be changed once a host runs the machine: delete the Machine, or change the template, to get another host"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.providerID) || !has(self.spec) || (has(self.spec.hostRequirements) == has(oldSelf.spec.hostRequirements) && (!has(self.spec.hostRequirements) || self.spec.hostRequirements == oldSelf.spec.hostRequirements))",message="spec.hostRequirements can't be changed once a host runs the machine: delete the Machine, or change the template, to get another host"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name can have 63 characters at most: it becomes the name of the host and of its Node; use a shorter name for the Cluster or the Machine"
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanmachines,scope=Namespaced,categories=cluster-api,shortName=cpm
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind=='Machine')].name",description="Machine that owns this object",priority=1
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".status.host",description="Claimed host"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".spec.failureDomain",description="Zone of the claimed host"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the machine is ready"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Why it is or is not ready"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Identifier of the instance",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].message",description="What the object waits for",priority=1
type CapstanMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec CapstanMachineSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status CapstanMachineStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the object.
func (m *CapstanMachine) GetConditions() clusterv1beta1.Conditions { return m.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (m *CapstanMachine) SetConditions(conditions clusterv1beta1.Conditions) {
	m.Status.Conditions = conditions
}

// CapstanMachineList is a list of CapstanMachines (IM-33).
// +kubebuilder:object:root=true
type CapstanMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanMachine `json:"items"`
}
