package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// CapstanMachineTemplateResource describes a CapstanMachine made from the template.
type CapstanMachineTemplateResource struct {
	// metadata has labels and annotations for the CapstanMachine (IMT-08).
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec becomes the spec of the CapstanMachine (IMT-07). Default: empty. If server-side apply removes the only field,
	// spec becomes null, and the default replaces the null.
	// +required
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="!has(self.providerID)",message="providerID can't be in a template: it names one instance, and the controller sets it; leave it out"
	Spec CapstanMachineSpec `json:"spec"`
}

// CapstanMachineTemplateSpec is the content of a CapstanMachineTemplate.
type CapstanMachineTemplateSpec struct {
	// template describes the CapstanMachine (IMT-06).
	// +required
	Template CapstanMachineTemplateResource `json:"template"`
}

// CapstanMachineTemplate describes CapstanMachines, for use by sets of Machines and in a ClusterClass (IMT-01).
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capstanmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=cpmt
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type CapstanMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the content of the template.
	// +required
	Spec CapstanMachineTemplateSpec `json:"spec"`
}

// CapstanMachineTemplateList is a list of CapstanMachineTemplates (IMT-10).
// +kubebuilder:object:root=true
type CapstanMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapstanMachineTemplate `json:"items"`
}
