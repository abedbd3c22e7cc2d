package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

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
type LoadBalancer struct {
	// type says who supplies the control plane endpoint: External (the default) or Local.
	// +optional
	// +kubebuilder:default=External
	Type LoadBalancerType `json:"type,omitempty"`
}

// CapstanClusterSpec is the desired state of a CapstanCluster.
type CapstanClusterSpec struct {
	// controlPlaneEndpoint is the address of the cluster's API server (IC-16). The user sets it, or the controller does if
	// the load balancer has type Local. An empty host with port 0 means that it is not set (D-43). It can't be changed
	// once it is set.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`(has(self.host) && self.host != "") == (has(self.port) && self.port != 0)`,message="needs both host and port, or neither: an endpoint can't be completed later"
	// +kubebuilder:validation:XValidation:rule="!has(self.port) || (self.port >= 0 && self.port <= 65535)",message="port must be 1 to 65535"
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || !self.host.contains('/')",message="host must be a host name or an IP address, without scheme and path: set cluster.example.com instead of https://cluster.example.com"
	ControlPlaneEndpoint clusterv1beta1.APIEndpoint `json:"controlPlaneEndpoint"`

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

// CapstanClusterStatus is the observed state of a CapstanCluster.
type CapstanClusterStatus struct {
	// ready is true once the endpoint and the failure domains are known; it never becomes false again (IC-22, IC-23).
	// +optional
	Ready bool `json:"ready"`

	// failureDomains are the zones of the inventory in the cluster's namespace, keyed by name (IC-19).
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`

	// failureReason says in one word why the infrastructure can never be provisioned (IC-29). Only a new Cluster helps.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains the failure to people (IC-30).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions are Ready, EndpointReady, Paused (IC-25, IC-26), and Reconciled while reconciling fails.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.status in ['True', 'False', 'Unknown'])",message="status of a condition must be True, False or Unknown"
	Conditions []clusterv1beta1.Condition `json:"conditions,omitempty"`
}

// CapstanCluster is the infrastructure of a Cluster: the control plane endpoint and the failure domains (IC-01).
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || !has(oldSelf.spec.controlPlaneEndpoint.host) || size(oldSelf.spec.controlPlaneEndpoint.host) == 0 || (has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",message="spec.controlPlaneEndpoint can't be changed once it is set: machines have joined through it; create a new cluster instead"
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.loadBalancer) && has(self.spec.loadBalancer.type) ? self.spec.loadBalancer.type : 'External') == (has(oldSelf.spec) && has(oldSelf.spec.loadBalancer) && has(oldSelf.spec.loadBalancer.type) ? oldSelf.spec.loadBalancer.type : 'External')",message="spec.loadBalancer.type can't be changed: the endpoint would move; create a new cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanclusters,scope=Namespaced,categories=cluster-api,shortName=cpc
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the infrastructure is ready"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.ready",description="Whether the first provisioning is done"
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
	Spec CapstanClusterSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status CapstanClusterStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the object.
func (c *CapstanCluster) GetConditions() clusterv1beta1.Conditions { return c.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (c *CapstanCluster) SetConditions(conditions clusterv1beta1.Conditions) {
	c.Status.Conditions = conditions
}

// CapstanClusterList is a list of CapstanClusters (IC-15).
// +kubebuilder:object:root=true
type CapstanClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanCluster `json:"items"`
}
