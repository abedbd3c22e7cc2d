package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/plane/readyourwrites"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// limit is the time limit for every wait.
const limit = time.Minute

// api is the API server of all tests of this package.
var api *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	api = &apiserver.Server{}
	err := start()
	defer func() {
		if err := api.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	return m.Run()
}

func start() error {
	log.SetLogger(logger())
	core, err := apiserver.Core()
	kubeadm, err2 := apiserver.Kubeadm()
	ours, err3 := apiserver.Capstan()
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	for _, crd := range kubeadm { // upstream's releases have this label
		if crd.Labels == nil {
			crd.Labels = map[string]string{}
		}
		crd.Labels["cluster.x-k8s.io/v1beta2"] = "v1beta2"
	}
	if api, err = apiserver.Start(apiserver.Options{CRDs: slices.Concat(core, kubeadm, ours)}); err != nil {
		return err
	}
	// Upstream's guard against stale caches costs a second for each reconcile; the plane and these tests have another
	// guard.
	return feature.MutableGates.SetFromMap(map[string]bool{
		string(feature.ClusterTopology): true, string(feature.RuntimeSDK): true,
		string(feature.ReconcilerRateLimiting): false, string(feature.PriorityQueue): false,
	})
}

// verbose is the variable that makes the reconcilers' logs visible.
const verbose = "CAPSTAN_TEST_LOGS"

// logger returns the logger of the reconcilers. It discards everything unless verbose is set.
func logger() logr.Logger {
	if os.Getenv(verbose) == "" {
		return logr.Discard()
	}
	return funcr.New(func(_, text string) { fmt.Fprintln(os.Stderr, text) }, funcr.Options{Verbosity: 5})
}

// newClient returns an administrator's client.
func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, runtimev1.AddToScheme,
		apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(api.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// start runs Cluster API's reconcilers of ClusterClasses and topologies. They see their own writes, like the
// reconcilers of a plane.
func (w *world) start() {
	w.Helper()
	scheme := w.admin.Scheme()
	guard := readyourwrites.New(scheme, 0)
	access := rest.CopyConfig(api.Config)
	access.Wrap(guard.Wrap)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Client: setup.ManagerClientOptions(),
		Cache:      cache.Options{NewInformer: guard.Informers(toolscache.NewSharedIndexInformer)},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
	})
	if err == nil {
		err = index.AddDefaultIndexes(ctx, mgr)
	}
	if err == nil {
		err = (&clusterclass.Reconciler{Client: mgr.GetClient(), RuntimeClient: w.Client}).
			SetupWithManager(ctx, mgr, controller.Options{})
	}
	if err == nil {
		err = (&topologycluster.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), RuntimeClient: w.Client,
			ClusterCache: clustercache.NewFakeEmptyClusterCache(),
		}).SetupWithManager(ctx, mgr, controller.Options{})
	}
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	w.cached = mgr.GetClient()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.Error(err)
			}
		case <-time.After(limit):
			w.Errorf("the reconcilers don't end within %s", limit)
		}
	})
}
