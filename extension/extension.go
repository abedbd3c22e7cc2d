// Package extension is the runtime extension that Capstan ships.
//
// It answers BeforeClusterCreate with a capacity gate: a Cluster whose machines the inventory can't hold waits, and the
// reason stands in its conditions. All other lifecycle hooks are recorded in its log and let through. [New] gives it as an http.Handler;
// [Config] is the ExtensionConfig that registers it.
//
// It is built with the public Runtime SDK alone, and runs in a process of its own (RX-30).
package extension

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name of the ExtensionConfig, and of the identity that [Config] and config/extension are about.
const Name = "capstan"

// Options of the extension.
type Options struct {
	// Reader reads CapstanHosts, Clusters, ClusterClasses and Machines, with a scheme like [Scheme]. It must not be a cache, see [Gate].
	Reader client.Reader
	// Log gets one line for each hook. Default: none.
	Log *slog.Logger
	// Metrics gets the metrics of the server, see server.Options. Default: none are registered.
	Metrics prometheus.Registerer
}

// New makes the extension.
func New(options Options) (*server.Server, error) {
	if options.Reader == nil {
		return nil, errors.New("making the extension: it needs a Reader for the inventory")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	gate := NewGate(options.Reader)
	recorder := recorder{log: options.Log}
	return server.New(server.Options{Log: options.Log, Metrics: options.Metrics, Catalog: hook.ClusterAPI()},
		server.Handle(hook.BeforeClusterCreate, "capacity", gate.BeforeClusterCreate),
		server.Handle(hook.AfterControlPlaneInitialized, "after-control-plane-initialized", recorder.afterControlPlaneInitialized),
		server.Handle(hook.BeforeClusterUpgrade, "before-cluster-upgrade", recorder.beforeClusterUpgrade),
		server.Handle(hook.BeforeControlPlaneUpgrade, "before-control-plane-upgrade", recorder.beforeControlPlaneUpgrade),
		server.Handle(hook.AfterControlPlaneUpgrade, "after-control-plane-upgrade", recorder.afterControlPlaneUpgrade),
		server.Handle(hook.BeforeWorkersUpgrade, "before-workers-upgrade", recorder.beforeWorkersUpgrade),
		server.Handle(hook.AfterWorkersUpgrade, "after-workers-upgrade", recorder.afterWorkersUpgrade),
		server.Handle(hook.AfterClusterUpgrade, "after-cluster-upgrade", recorder.afterClusterUpgrade),
		server.Handle(hook.BeforeClusterDelete, "before-cluster-delete", recorder.beforeClusterDelete),
	)
}

// Scheme holds the types that the extension reads.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// Mapper knows where the API server serves what the extension reads. Asking the API server for that would cost the first Cluster
// a fifth of a second, and the answer is known.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	mapper.AddSpecific(clusterv1.GroupVersion.WithKind("ClusterClass"),
		clusterv1.GroupVersion.WithResource("clusterclasses"), clusterv1.GroupVersion.WithResource("clusterclass"), meta.RESTScopeNamespace)
	mapper.Add(infrav1.GroupVersion.WithKind("CapstanHost"), meta.RESTScopeNamespace)
	return mapper
}

// Config gives the ExtensionConfig for an extension at this URL (https), whose certificate is of one of these CAs in PEM form. It is called
// for Clusters of all namespaces.
func Config(url string, caBundle []byte) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: runtimev1.GroupVersion.String(), Kind: "ExtensionConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig:      runtimev1.ClientConfig{URL: url, CABundle: caBundle},
			NamespaceSelector: &metav1.LabelSelector{},
		},
	}
}
