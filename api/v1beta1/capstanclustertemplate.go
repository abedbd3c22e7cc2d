package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// CapstanClusterTemplateResource describes a CapstanCluster made from the template.
type CapstanClusterTemplateResource struct {
	// metadata has labels and annotations for the CapstanCluster (ICT-06).
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec becomes the spec of the CapstanCluster (ICT-04). Default: empty. If server-side apply removes the only field,
	// spec becomes null, and the default replaces the null.
	// +required
	// +kubebuilder:default={}
	Spec CapstanClusterSpec `json:"spec"`
}

// CapstanClusterTemplateSpec is the content of a CapstanClusterTemplate.
type CapstanClusterTemplateSpec struct {
	// template describes the CapstanCluster.
	// +required
	Template CapstanClusterTemplateResource `json:"template"`
}

// CapstanClusterTemplate describes CapstanClusters, for use in a ClusterClass (ICT-01).
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanclustertemplates,scope=Namespaced,categories=cluster-api,shortName=cpct
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Balancer",type="string",JSONPath=".spec.template.spec.loadBalancer.type",description="Who supplies the endpoint"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type CapstanClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the content of the template.
	// +required
	Spec CapstanClusterTemplateSpec `json:"spec"`
}

// CapstanClusterTemplateList is a list of CapstanClusterTemplates (ICT-07).
// +kubebuilder:object:root=true
type CapstanClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanClusterTemplate `json:"items"`
}
