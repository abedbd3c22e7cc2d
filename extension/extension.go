// Package extension is the runtime extension that Capstan ships.
//
// It has several parts, each with handlers of its own, which are switched by settings of the ExtensionConfig and by a label of each Cluster:
//
//   - [Capacity]: what the inventory has no hosts for waits, and the reason stands in the Cluster's conditions.
//   - [MaintenanceWindow]: upgrades wait for given times.
//   - [AddOns]: manifests are applied to new clusters, and again when their version changes.
//   - [Verification]: workers wait until the control plane is right after its upgrade, the next upgrade until everything is.
//   - [BackupBeforeUpgrade], [BackupBeforeDelete]: upgrades and deletions wait for a verified snapshot of the cluster's etcd.
//
// Moments that no part is about are recorded in the log. [New] gives it as an http.Handler; [Config] is the ExtensionConfig that registers it.
// docs/lifecycle-extensions.md is for those who use it.
//
// It is built with the public Runtime SDK alone, and runs in a process of its own (RX-30).
package extension

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name of the ExtensionConfig, and of the identity that [Config] and config/extension are about.
const Name = "capstan"

// Options of the extension.
type Options struct {
	// Reader reads CapstanHosts, Clusters, ClusterClasses and Machines, and the ConfigMaps with add-ons and Secrets with kubeconfigs, with a scheme
	// like [Scheme]. It must not be a cache, see [Gate].
	Reader client.Reader
	// Events makes Events of Clusters. Default: none are made.
	Events client.Writer
	// Log gets one line for each hook. Default: none.
	Log *slog.Logger
	// Metrics gets the metrics of the server, see server.Options. Default: none are registered.
	Metrics prometheus.Registerer
	// Patience is how long one call of the verification looks again before it answers that something is not right. Default: 3 seconds.
	Patience time.Duration
	// Bundle is the path of a bundle's capstan-kube, whose etcd verifies backups. Default: none are taken.
	Bundle string
	// Backups is the directory that backups are kept in. Default: they have no place.
	Backups string
	// Replicas makes several processes take turns with backups. Default: this is the only one.
	Replicas *backup.Replicas
	// Now tells the time, for maintenance windows. Default: time.Now.
	Now func() time.Time
}

// Extension serves the hooks. Make it with [New], and Close it.
type Extension struct {
	*server.Server

	backups *backup.Runner
}

// Close ends backups that are being taken, and waits for that.
func (e *Extension) Close() { e.backups.Close() }

// New makes the extension.
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
	settings, err := Settings()
	if err != nil {
		return nil, err
	}
	all := handlers{settings: settings, parts: parts()}
	gate := NewGate(options.Reader)
	windows := keeper{now: options.Now}
	drift, err := newDriftMetric(options.Metrics)
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
	}
	addOns := &addOns{
		reader: options.Reader, scheme: scheme, drift: drift,
		announce: announcer{writer: options.Events, log: options.Log, now: options.Now},
	}
	verification := &verification{addOns: addOns, patience: cmp.Or(options.Patience, verifyFor)}
	recorder := recorder{log: options.Log}
	runner, err := backup.New(backup.Options{
		Reader: options.Reader, Tool: backup.Tool{Path: options.Bundle}, Directory: options.Backups, Replicas: options.Replicas, Log: options.Log,
	})
	if err != nil {
		return nil, err
	}
	backups := backups{runner: runner, windows: windows}
	served, err := server.New(server.Options{Log: options.Log, Metrics: options.Metrics, Catalog: hook.ClusterAPI()},
		handle(all, Capacity, hook.BeforeClusterCreate, "capacity", unset(gate.BeforeClusterCreate)),
		handle(all, Capacity, hook.BeforeControlPlaneUpgrade, "capacity-control-plane", unset(gate.BeforeControlPlaneUpgrade)),
		handle(all, Capacity, hook.BeforeWorkersUpgrade, "capacity-workers", unset(gate.BeforeWorkersUpgrade)),
		handle(all, MaintenanceWindow, hook.BeforeClusterUpgrade, "window-upgrade", windows.beforeClusterUpgrade),
		handle(all, MaintenanceWindow, hook.BeforeControlPlaneUpgrade, "window-control-plane", windows.beforeControlPlaneUpgrade),
		handle(all, MaintenanceWindow, hook.BeforeWorkersUpgrade, "window-workers", windows.beforeWorkersUpgrade),
		handle(all, AddOns, hook.AfterControlPlaneInitialized, "add-ons-create", addOns.afterControlPlaneInitialized, server.Timeout(workloadTimeout)),
		handle(all, AddOns, hook.BeforeClusterUpgrade, "add-ons-before-upgrade", addOns.beforeClusterUpgrade, server.Timeout(workloadTimeout), server.IgnoreFailures()),
		handle(all, AddOns, hook.AfterControlPlaneUpgrade, "add-ons-control-plane", addOns.afterControlPlaneUpgrade, server.Timeout(workloadTimeout)),
		handle(all, AddOns, hook.AfterClusterUpgrade, "add-ons-upgrade", addOns.afterClusterUpgrade, server.Timeout(workloadTimeout)),
		handle(all, BackupBeforeUpgrade, hook.BeforeClusterUpgrade, "backup-upgrade", backups.beforeClusterUpgrade),
		handle(all, BackupBeforeDelete, hook.BeforeClusterDelete, "backup-delete", backups.beforeClusterDelete),
		server.Handle(hook.AfterControlPlaneInitialized, "record-initialized", recorder.afterControlPlaneInitialized, server.IgnoreFailures()),
		handle(all, Verification, hook.AfterControlPlaneUpgrade, "verification-control-plane", verification.afterControlPlaneUpgrade, server.Timeout(workloadTimeout)),
		handle(all, Verification, hook.AfterClusterUpgrade, "verification-upgrade", verification.afterClusterUpgrade, server.Timeout(workloadTimeout)),
		server.Handle(hook.AfterControlPlaneUpgrade, "record-control-plane", recorder.afterControlPlaneUpgrade, server.IgnoreFailures()),
		server.Handle(hook.AfterWorkersUpgrade, "record-workers", recorder.afterWorkersUpgrade, server.IgnoreFailures()),
		server.Handle(hook.AfterClusterUpgrade, "record-upgrade", recorder.afterClusterUpgrade, server.IgnoreFailures()),
		server.Handle(hook.BeforeClusterDelete, "record-delete", recorder.beforeClusterDelete, server.IgnoreFailures()),
	)
	if err != nil {
		return nil, err
	}
	return &Extension{Server: served, backups: runner}, nil
}

// Scheme holds the types that the extension reads and writes, here and in workload clusters.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// Mapper knows where the API server serves what the extension reads. Asking the API server for that would cost the first Cluster
// a fifth of a second, and the answer is known.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "Event"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("MachineDeployment"), meta.RESTScopeNamespace)
	mapper.Add(kubeadmControlPlane, meta.RESTScopeNamespace)
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
