package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterFinalizer holds a CapstanCluster until its balancer is gone (IC-47, IC-55).
const ClusterFinalizer = "infrastructure.capstan.dev/capstancluster"

// LoadBalancerType says who supplies the control plane endpoint.
// +kubebuilder:validation:Enum=External;Local
type LoadBalancerType string

const (
	// LoadBalancerExternal: the user sets spec.controlPlaneEndpoint here or on the Cluster, and keeps something that
	// answers there (a load balancer, or a virtual address held by the control plane machines).
	LoadBalancerExternal LoadBalancerType = "External"

	// LoadBalancerLocal: the management plane supplies a TCP balancer with an address of its own. Needs local hosts.
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

// CapstanClusterSpec is the wanted state of a CapstanCluster.
type CapstanClusterSpec struct {
	// controlPlaneEndpoint is where the API server of the cluster answers (IC-16). Set by the user, or by the controller
	// for load balancer type Local. Immutable once set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.host) && has(self.port)",message="needs both host and port: an endpoint can't be completed later"
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || !self.host.contains('/')",message="host must be a host name or an IP address, without scheme and path: set cluster.example.com instead of https://cluster.example.com"
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// loadBalancer describes the control plane load balancer. Default: type External.
	// +optional
	// +kubebuilder:default={type: External}
	LoadBalancer LoadBalancer `json:"loadBalancer,omitempty,omitzero"`

	// controlPlaneHostSelector limits the zones that status.failureDomains offers to control plane machines: to zones
	// with a free host with these labels. Set it to spec.hostSelector of the control plane's machines, or one of them may
	// be bound to a zone without a host for it. Default: every host of the namespace.
	// +optional
	ControlPlaneHostSelector *metav1.LabelSelector `json:"controlPlaneHostSelector,omitempty"`
}

// CapstanClusterInitialization tells how far the first provisioning is.
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
	// conditions are Ready, EndpointReady, Paused (IC-25), and Reconciled while that fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells how far the first provisioning is.
	// +optional
	Initialization CapstanClusterInitialization `json:"initialization,omitempty,omitzero"`

	// failureDomains are the zones of the inventory in the cluster's namespace, sorted by name (IC-19).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// deprecated has what only older contracts know.
	// +optional
	Deprecated DeprecatedStatus `json:"deprecated,omitempty,omitzero"`
}

// The rules stand at the whole object and not at its spec, because a spec that is left out altogether would escape
// them.

// CapstanCluster is the infrastructure of a Cluster: the control plane endpoint and the failure domains (IC-01).
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || (has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",message="spec.controlPlaneEndpoint can't be changed once it is set: machines have joined through it; create a new cluster instead"
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.loadBalancer) && has(self.spec.loadBalancer.type) ? self.spec.loadBalancer.type : 'External') == (has(oldSelf.spec) && has(oldSelf.spec.loadBalancer) && has(oldSelf.spec.loadBalancer.type) ? oldSelf.spec.loadBalancer.type : 'External')",message="spec.loadBalancer.type can't be changed: the endpoint would move; create a new cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanclusters,scope=Namespaced,categories=cluster-api,shortName=cpc
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the infrastructure does its work"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether the first provisioning is done"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Address of the control plane endpoint"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port",description="Port of the control plane endpoint",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].message",description="What is waited for",priority=1
type CapstanCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the wanted state.
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
