package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterFinalizer keeps a CapstanCluster until its load balancer is deleted (IC-47, IC-55).
const ClusterFinalizer = "infrastructure.capstan.dev/capstancluster"

// LoadBalancerType says who supplies the control plane endpoint.
// +kubebuilder:validation:Enum=External;Local
type LoadBalancerType string

const (
	// LoadBalancerExternal: the user sets spec.controlPlaneEndpoint here or on the Cluster, and runs what answers there: a
	// load balancer, or a virtual address that the control plane machines share.
	LoadBalancerExternal LoadBalancerType = "External"

	// LoadBalancerLocal: the management plane runs a TCP load balancer with its own address. It works for local hosts
	// only.
	LoadBalancerLocal LoadBalancerType = "Local"
)

// LoadBalancer describes the control plane load balancer.
// +kubebuilder:validation:MinProperties=1
type LoadBalancer struct {
	// type says who supplies the control plane endpoint: External (the default) or Local.
	// +optional
	// +kubebuilder:default=External
	Type LoadBalancerType `json:"type,omitempty"`
}

// CapstanClusterSpec is the desired state of a CapstanCluster.
type CapstanClusterSpec struct {
	// controlPlaneEndpoint is the address of the cluster's API server (IC-16). The user sets it, or the controller does if
	// the load balancer has type Local. It can't be changed once it is set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.host) && has(self.port)",message="needs both host and port: an endpoint can't be completed later"
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || !self.host.contains('/')",message="host must be a host name or an IP address, without scheme and path: set cluster.example.com instead of https://cluster.example.com"
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// loadBalancer describes the control plane load balancer. Default: type External.
	// +optional
	// +kubebuilder:default={type: External}
	LoadBalancer LoadBalancer `json:"loadBalancer,omitempty,omitzero"`

	// controlPlaneHostSelector selects the hosts that control plane machines can use. status.failureDomains offers those
	// machines only zones in which such a host is free. Use the same selector as spec.hostSelector of the control plane's
	// machines; otherwise Cluster API may assign a machine to a zone that has no host for it. Default: every host of the
	// namespace.
	// +optional
	ControlPlaneHostSelector *metav1.LabelSelector `json:"controlPlaneHostSelector,omitempty"`
}

// CapstanClusterInitialization reports the progress of the first provisioning.
// +kubebuilder:validation:MinProperties=1
type CapstanClusterInitialization struct {
	// provisioned is true once the endpoint and the failure domains are known; it never becomes false again (IC-22,
	// IC-23).
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// CapstanClusterStatus is the observed state of a CapstanCluster.
// +kubebuilder:validation:MinProperties=1
type CapstanClusterStatus struct {
	// conditions are Ready, EndpointReady, Paused (IC-25), and Reconciled while reconciling fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning.
	// +optional
	Initialization CapstanClusterInitialization `json:"initialization,omitempty,omitzero"`

	// failureDomains are the zones of the inventory in the cluster's namespace, sorted by name (IC-19).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// deprecated has the fields that only older contract versions define.
	// +optional
	Deprecated DeprecatedStatus `json:"deprecated,omitempty,omitzero"`
}

// The rules are on the whole object, not on its spec: rules on the spec are not checked if the spec is missing.

// CapstanCluster is the infrastructure of a Cluster: the control plane endpoint and the failure domains (IC-01).
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || (has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",message="spec.controlPlaneEndpoint can't be changed once it is set: machines have joined through it; create a new cluster instead"
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.loadBalancer) && has(self.spec.loadBalancer.type) ? self.spec.loadBalancer.type : 'External') == (has(oldSelf.spec) && has(oldSelf.spec.loadBalancer) && has(oldSelf.spec.loadBalancer.type) ? oldSelf.spec.loadBalancer.type : 'External')",message="spec.loadBalancer.type can't be changed: the endpoint would move; create a new cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanclusters,scope=Namespaced,categories=cluster-api,shortName=cpc
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the infrastructure is ready"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether the first provisioning is done"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Address of the control plane endpoint"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port",description="Port of the control plane endpoint",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].message",description="What the object waits for",priority=1
type CapstanCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec CapstanClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status CapstanClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (c *CapstanCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (c *CapstanCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// CapstanClusterList is a list of CapstanClusters (IC-15).
// +kubebuilder:object:root=true
type CapstanClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanCluster `json:"items"`
}
