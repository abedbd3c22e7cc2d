//go:build linux

package contract

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// coreUser is the user that core's reconcilers run as. It has core's own role, with the rules that providers add by
// aggregation (RB-08).
const coreUser = "capi-manager"

// startCore starts upstream's reconcilers of Cluster, Machine, MachineSet and MachineHealthCheck for one namespace. In
// one process, they can be started only once for each namespace. What they write is recorded in writes. startCore
// returns a function that stops the reconcilers.
func startCore(ctx context.Context, namespace string, writes *objectWrites) (stop func() error, err error) {
	return startUpstream(ctx, namespace, writes, addCore)
}

// add adds reconcilers to a manager.
type add func(context.Context, ctrl.Manager, upstream) error

// upstream holds what upstream's reconcilers share.
type upstream struct{ clusters clustercache.ClusterCache }

// startUpstream starts upstream's reconcilers as the user of core.
func startUpstream(ctx context.Context, namespace string, writes *objectWrites, parts ...add) (func() error, error) {
	if err := bindCore(ctx); err != nil {
		return nil, err
	}
	// Upstream's guard against stale caches expects informers of the whole cluster; here each manager has those of one
	// namespace.
	if err := feature.MutableGates.Set("ReconcilerRateLimiting=false"); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	access, err := shared.User(coreUser)
	if err != nil {
		return nil, err
	}
	access.QPS, access.Burst, access.UserAgent = 200, 400, coreUser
	access.Wrap(writes.wrap)
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache:      setup.ManagerCacheOptions(scheme, "core-"+namespace, namespace, 10*time.Minute),
		Client:     setup.ManagerClientOptions(),
		Controller: skipNames,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := addTo(ctx, mgr, "core-"+namespace, parts); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(limit):
			return fmt.Errorf("core's manager doesn't stop within %s", limit)
		}
	}), nil
}

func addTo(ctx context.Context, mgr ctrl.Manager, name string, parts []add) error {
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return err
	}
	secrets, err := setup.CreateSecretCachingClient(mgr)
	if err != nil {
		return err
	}
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets, Cache: setup.ClusterCacheCacheOptions(),
		Client: setup.ClusterCacheClientOptions(name, 100, 200),
	}, upstreamOptions)
	if err != nil {
		return err
	}
	if retry, ok := clusters.(interface{ SetConnectionCreationRetryInterval(time.Duration) }); ok {
		retry.SetConnectionCreationRetryInterval(time.Second)
	}
	for _, part := range parts {
		if err := part(ctx, mgr, upstream{clusters}); err != nil {
			return err
		}
	}
	return nil
}

var upstreamOptions = controller.Options{MaxConcurrentReconciles: 5}

func addCore(ctx context.Context, mgr ctrl.Manager, u upstream) error {
	options, clusters := upstreamOptions, u.clusters
	c, r := mgr.GetClient(), mgr.GetAPIReader()
	for kind, err := range map[string]error{
		"Cluster": (&cluster.Reconciler{
			Client: c, APIReader: r, ClusterCache: clusters, RemoteConnectionGracePeriod: time.Minute,
		}).SetupWithManager(ctx, mgr, options),
		"Machine": (&machine.Reconciler{
			Client: c, APIReader: r, ClusterCache: clusters, RemoteConditionsGracePeriod: 5 * time.Minute,
		}).SetupWithManager(ctx, mgr, options),
		"MachineSet": (&machineset.Reconciler{Client: c, APIReader: r, ClusterCache: clusters}).SetupWithManager(ctx,
			mgr, options),
		"MachineHealthCheck": (&machinehealthcheck.Reconciler{
			Client: c, ClusterCache: clusters,
		}).SetupWithManager(ctx, mgr, options),
	} {
		if err != nil {
			return fmt.Errorf("adding upstream's controller of %s: %w", kind, err)
		}
	}
	return nil
}

// bindCore gives core's user exactly the roles that core's release would bind.
var bindCore = func() func(context.Context) error {
	var once sync.Once
	var err error
	return func(ctx context.Context) error {
		once.Do(func() { err = bindCoreOnce(ctx) })
		return err
	}
}()

func bindCoreOnce(ctx context.Context) error {
	module, err := apiserver.Module("sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	for _, file := range []string{"role.yaml", "aggregated_role.yaml"} {
		data, err := os.ReadFile(filepath.Join(module, "core", "config", "rbac", file))
		if err != nil {
			return err
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(data, role); err != nil {
			return fmt.Errorf("reading core's %s: %w", file, err)
		}
		role.Name = "capi-" + role.Name
		if err := bind(ctx, role, rbacv1.Subject{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: coreUser,
		}); err != nil {
			return err
		}
	}
	return nil
}

// bind creates a ClusterRole and binds it.
func bind(ctx context.Context, role *rbacv1.ClusterRole, to rbacv1.Subject) error {
	if err := shared.admin.Create(ctx, role); err != nil {
		return err
	}
	return shared.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{to},
	})
}

// serveContract removes the labels of all other contract versions from our definitions, so that core uses the contract
// of this world. The remaining label names two API versions: first an older one, then the one that serves the contract.
// Core must use the second (IC-10).
func (w *world) serveContract() {
	w.Helper()
	for _, ours := range shared.ours {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		w.must(shared.admin.Get(w.Context(), client.ObjectKey{Name: ours.Name}, crd))
		edit(w, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
			for _, v := range versions {
				label := "cluster.x-k8s.io/" + string(v)
				delete(crd.Labels, label)
				if value, ok := ours.Labels[label]; ok && v == w.Version {
					crd.Labels[label] = "v1alpha1_" + value
				}
			}
		})
	}
}

// kubeconfig lets core reach the workload cluster of a Cluster. In these tests, the API server is also the workload
// cluster.
func (w *world) kubeconfig(cluster string) {
	w.Helper()
	secret := secretOf(w.ns, cluster+"-kubeconfig", cluster, map[string][]byte{"value": shared.Kubeconfig})
	secret.Type = corev1.SecretTypeOpaque // as if a user had created it, so no controller replaces it
	w.create(secret)
}

// newMachineSet creates a MachineSet whose machines come from a CapstanMachineTemplate.
func (w *world) newMachineSet(name, cluster string, replicas int32) *clusterv1.MachineSet {
	w.Helper()
	template := w.newObject("CapstanMachineTemplate")
	template.SetNamespace(w.ns)
	template.SetName(name)
	template.Object["spec"] = map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"example.com/from": "template"}},
		"spec":     map[string]any{},
	}}
	w.create(template)
	w.newData(name + "-data")
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster, clusterv1.MachineSetNameLabel: name}
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: labels},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: cluster, Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: cluster, Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-data")},
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: template.GroupVersionKind().Group, Kind: "CapstanMachineTemplate", Name: name,
					},
				},
			},
		},
	}
	w.create(set)
	return set
}

// machinesOf returns the Machines of a MachineSet that are not being deleted, the oldest first.
func (w *world) machinesOf(set string) []clusterv1.Machine {
	w.Helper()
	list := &clusterv1.MachineList{}
	w.must(shared.admin.List(w.Context(), list, client.InNamespace(w.ns),
		client.MatchingLabels{clusterv1.MachineSetNameLabel: set}))
	found := slices.DeleteFunc(list.Items, func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	slices.SortFunc(found, func(a, b clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return found
}
