// Package extension is the runtime extension that Capstan ships. It consists of parts, each in a package of its own.
// Settings in the ExtensionConfig and a label on each Cluster switch parts on and off:
//
//   - capacity: clusters and rollouts wait for enough hosts; the Cluster's conditions show the reason.
//   - window: upgrades wait for maintenance windows.
//   - plan: upgrades over several minor versions take the versions that hosts offer.
//   - addon: manifests are applied to new clusters, and again when their version changes.
//   - verify: workers wait until the upgraded control plane is verified; the next upgrade waits until the cluster is.
//   - backup: upgrades and deletions wait for a verified snapshot of the cluster's etcd.
//
// Package part defines what a part is. Hooks that no part handles are only logged. [New] returns the extension as an
// http.Handler; [Config] returns the ExtensionConfig that registers it. docs/lifecycle-extensions.md is the guide for
// users.
//
// It uses only the public Runtime SDK and runs in a process of its own (rule RX-30 of the Runtime SDK contract).
package extension

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/capacity"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/plan"
	"github.com/capstan-dev/capstan/extension/record"
	"github.com/capstan-dev/capstan/extension/steady"
	"github.com/capstan-dev/capstan/extension/verify"
	"github.com/capstan-dev/capstan/extension/window"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name is the name of the ExtensionConfig in [Config] and in config/extension.
const Name = "capstan"

// Options configure the extension.
type Options struct {
	// Reader reads CapstanHosts, Clusters, ClusterClasses and Machines, ConfigMaps with add-ons and Secrets with
	// kubeconfigs. It needs a scheme like [Scheme]. It must not be a cache: see capacity.New.
	Reader client.Reader
	// Events creates Events for Clusters. Default: none are created.
	Events client.Writer
	// Log receives one line for each hook. Default: none.
	Log *slog.Logger
	// Metrics registers the metrics of the server, see server.Options. Default: none are registered.
	Metrics prometheus.Registerer
	// Patience is how long one call of the verification keeps checking before it answers that something is wrong.
	// Default: 3 seconds.
	Patience time.Duration
	// Bundle is the path of a bundle's capstan-kube, whose etcd verifies backups. Default: no backups are taken.
	Bundle string
	// Backups is the directory for backups. Default: there is no place for them.
	Backups string
	// Replicas lets several processes take turns with backups. Default: this process is the only one.
	Replicas *backup.Replicas
	// Now returns the time, for maintenance windows. Default: time.Now.
	Now func() time.Time
}

// Extension serves the hooks. Create it with [New] and Close it.
type Extension struct {
	*server.Server

	parts []part.Part
}

// Close cancels running backups and waits for them.
func (e *Extension) Close() { part.Close(e.parts...) }

// New returns the extension.
func New(options Options) (*Extension, error) {
	if options.Reader == nil {
		return nil, errors.New("making the extension: it needs a Reader for the inventory")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Reader = steady.Reader(options.Reader, options.Log)
	parts, err := parts(options)
	if err != nil {
		return nil, err
	}
	handlers, err := part.Handlers(options.Log, parts...)
	if err != nil {
		return nil, err
	}
	served, err := server.New(server.Options{Log: options.Log, Metrics: options.Metrics, Catalog: hook.ClusterAPI()},
		append(handlers, record.Handlers(options.Log)...)...)
	if err != nil {
		return nil, err
	}
	return &Extension{Server: served, parts: parts}, nil
}

// parts returns all parts. Handlers of one hook are called in the order of the parts.
func parts(options Options) ([]part.Part, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
	}
	addOns, err := addon.New(addon.Options{
		Reader: options.Reader, Scheme: scheme, Events: options.Events,
		Log: options.Log, Metrics: options.Metrics, Now: options.Now,
	})
	if err != nil {
		return nil, err
	}
	backups, err := backup.New(backup.Options{
		Reader: options.Reader, Tool: backup.Tool{Path: options.Bundle}, Directory: options.Backups,
		Replicas: options.Replicas, Log: options.Log, Now: options.Now,
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(
		[]part.Part{capacity.New(options.Reader), window.New(options.Now), plan.New(options.Reader), addOns},
		backups,
		[]part.Part{verify.New(verify.Options{Reader: options.Reader, Scheme: scheme, Patience: options.Patience})},
	), nil
}

// Scheme returns the types that the extension reads and writes, in the management cluster and in workload clusters.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// Mapper returns a static mapper for what the extension reads. Discovery would delay the first Cluster by a fifth of a
// second, and the result is known.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "Event"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("MachineDeployment"), meta.RESTScopeNamespace)
	mapper.Add(workload.KubeadmControlPlane, meta.RESTScopeNamespace)
	mapper.AddSpecific(clusterv1.GroupVersion.WithKind("ClusterClass"),
		clusterv1.GroupVersion.WithResource("clusterclasses"), clusterv1.GroupVersion.WithResource("clusterclass"),
		meta.RESTScopeNamespace)
	mapper.Add(infrav1.GroupVersion.WithKind("CapstanHost"), meta.RESTScopeNamespace)
	mapper.Add(infrav1.GroupVersion.WithKind("CapstanClusterTemplate"), meta.RESTScopeNamespace)
	mapper.Add(infrav1.GroupVersion.WithKind("CapstanMachineTemplate"), meta.RESTScopeNamespace)
	return mapper
}

// Config returns the ExtensionConfig for an extension at this https URL. caBundle holds the PEM certificates of the CAs
// that may sign its certificate. The ExtensionConfig covers the Clusters of all namespaces.
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
