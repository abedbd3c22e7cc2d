package controllers

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1alpha1 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/provider/webhook"
)

// newScheme returns a scheme with all types that Cluster API's three providers need, our own, and those that the
// functions in more add.
func newScheme(more []func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	all := append([]func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		storagev1.AddToScheme,
		clusterv1beta1.AddToScheme,
		clusterv1.AddToScheme,
		addonsv1beta1.AddToScheme,
		addonsv1.AddToScheme,
		runtimev1alpha1.AddToScheme,
		runtimev1.AddToScheme,
		ipamv1alpha1.AddToScheme,
		ipamv1beta1.AddToScheme,
		ipamv1.AddToScheme,
		bootstrapv1beta1.AddToScheme,
		bootstrapv1.AddToScheme,
		controlplanev1beta1.AddToScheme,
		controlplanev1.AddToScheme,
		webhook.AddToScheme,
	}, more...)
	for _, add := range all {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("adding types to the scheme: %w", err)
		}
	}
	return scheme, nil
}
