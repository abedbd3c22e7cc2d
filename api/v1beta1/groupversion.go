package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.capstan.dev", Version: "v1beta1"}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CapstanCluster{}, &CapstanClusterList{},
		&CapstanClusterTemplate{}, &CapstanClusterTemplateList{},
		&CapstanMachine{}, &CapstanMachineList{},
		&CapstanMachineTemplate{}, &CapstanMachineTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
