package local

import (
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// NewScheme returns a scheme with the types of Kubernetes, Cluster API and Capstan that a client of the plane needs.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme,
		runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types under one name: a mistake in the program
		}
	}
	return scheme
}

// Connect returns a client for the management plane of a home directory. It makes no call: if the plane is not running,
// the first call fails. If the home directory has no plane, the error is a [*NoPlaneError].
func Connect(homePath string) (client.WithWatch, error) {
	path, err := Kubeconfig(homePath)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, hint.Errorf("run: capstan up", "reading %s: %w", path, err)
	}
	config.QPS, config.Burst = 100, 200
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		return nil, hint.Errorf("run: capstan up", "connecting to the management plane: %w", err)
	}
	return c, nil
}
