package extensionconfig_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/extensionconfig"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// limit bounds every wait; the machine may be busy.
const limit = 90 * time.Second

// api is the API server of all tests of this package.
var api *rest.Config

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" {
		// Each fuzzing worker would start an API server, whose pipes would keep the fuzzing from finishing.
		fmt.Fprintln(os.Stderr, "fuzzing: the tests with a real API server are skipped")
		return m.Run()
	}
	kube := bundle()
	if kube == "" {
		fmt.Fprintln(os.Stderr,
			"no Kubernetes bundle: the tests with a real API server are skipped; run make kube first, or set CAPSTAN_KUBE")
		return m.Run()
	}
	env, err := startAPI(kube)
	if env != nil {
		defer func() {
			if err := env.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			}
			_ = os.RemoveAll(env.BinaryAssetsDirectory)
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	return m.Run()
}

// bundle returns the binary whose applets are etcd and kube-apiserver, "" if it is missing: this module can be tested
// without the repository.
func bundle() string {
	if kube := os.Getenv("CAPSTAN_KUBE"); kube != "" {
		return kube
	}
	version, err := os.ReadFile("../../kube/DEFAULT_VERSION")
	if err != nil {
		return ""
	}
	kube, err := filepath.Abs(filepath.Join("..", "..", "bin", "bundles", strings.TrimSpace(string(version)),
		"capstan-kube"))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(kube); err != nil {
		return ""
	}
	return kube
}

func startAPI(kube string) (*envtest.Environment, error) {
	assets, err := os.MkdirTemp("", "extensionconfig-")
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: limit, ControlPlaneStopTimeout: limit,
		ErrorIfCRDPathMissing: true,
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(kube, filepath.Join(assets, name)); err != nil {
			return env, err
		}
	}
	// Choose the directories here: nobody removes those that the servers choose themselves if a start fails.
	data, certificates := filepath.Join(assets, "data"), filepath.Join(assets, "certificates")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(certificates, 0o700)); err != nil {
		return env, err
	}
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	env.ControlPlane.GetAPIServer().CertDir = certificates
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return env, fmt.Errorf("finding cluster-api's module: %w", err)
	}
	env.CRDDirectoryPaths = []string{
		filepath.Join(strings.TrimSpace(string(out)), "core", "config", "crd", "bases",
			"runtime.cluster.x-k8s.io_extensionconfigs.yaml"),
	}
	api, err = env.Start()
	return env, err
}

// world is a management cluster with the controller.
type world struct {
	t       *testing.T
	ca      *testtls.Authority
	catalog *hook.Catalog
	scheme  *runtime.Scheme
	admin   ctrlclient.Client
	calls   *client.Client
}

func newWorld(t *testing.T, catalog *hook.Catalog) *world {
	t.Helper()
	if api == nil {
		t.Skip("no Kubernetes bundle: run make kube first, or set CAPSTAN_KUBE")
	}
	w := &world{t: t, ca: testtls.NewAuthority(t), catalog: catalog, scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, runtimev1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.admin, err = ctrlclient.New(api, ctrlclient.Options{Scheme: w.scheme}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := w.admin.DeleteAllOf(ctx, &runtimev1.ExtensionConfig{}); err != nil {
			t.Error(err)
		}
		if err := w.admin.DeleteAllOf(ctx, &corev1.Secret{}, ctrlclient.InNamespace("default")); err != nil {
			t.Error(err)
		}
	})
	return w
}

// start starts the controller, which runs until the test ends.
func (w *world) start(change func(*extensionconfig.Reconciler)) {
	w.t.Helper()
	mgr, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: w.scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.calls, err = client.New(client.Options{
		Reader: mgr.GetClient(), Catalog: w.catalog, Recheck: time.Second,
	}); err != nil {
		w.t.Fatal(err)
	}
	names, err := cache.New(api, cache.Options{Scheme: w.scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := mgr.Add(names); err != nil {
		w.t.Fatal(err)
	}
	r := &extensionconfig.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Runtime: w.calls, SecretNames: names, Catalog: w.catalog,
	}
	if change != nil {
		change(r)
	}
	skip, priorities := true, false // the priority queue of controller-runtime 0.24 can deadlock when it stops
	if err := r.SetupWithManager(mgr, controller.Options{
		SkipNameValidation: &skip, UsePriorityQueue: &priorities,
	}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		w.calls.Close()
	})
}

// eventually waits until check returns no error.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func (w *world) get(name string) *runtimev1.ExtensionConfig {
	config := &runtimev1.ExtensionConfig{}
	if err := w.admin.Get(w.t.Context(), ctrlclient.ObjectKey{Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	return config
}

// condition waits until a condition has this status and its message contains this text; "absent" waits until there is
// none.
func (w *world) condition(name, condition string, status metav1.ConditionStatus, text string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("condition %s of %s", condition, name), func() error {
		c := meta.FindStatusCondition(w.get(name).Status.Conditions, condition)
		switch {
		case c == nil && status == "absent":
			return nil
		case c == nil || c.Status != status || !strings.Contains(c.Message, text):
			return fmt.Errorf("the condition is %+v, want %s with %q", c, status, text)
		}
		return nil
	})
}

// create creates an ExtensionConfig; the change may be nil.
func (w *world) create(name, url string, change func(*runtimev1.ExtensionConfig)) *runtimev1.ExtensionConfig {
	w.t.Helper()
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: url, CABundle: w.ca.PEM}
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	if change != nil {
		change(config)
	}
	if err := w.admin.Create(w.t.Context(), config); err != nil {
		w.t.Fatal(err)
	}
	return config
}

func (w *world) update(name string, change func(*runtimev1.ExtensionConfig)) {
	w.t.Helper()
	w.eventually("updating "+name, func() error {
		config := w.get(name)
		change(config)
		return w.admin.Update(w.t.Context(), config)
	})
}

// deployed is an extension that can be redeployed: its handlers are replaced while it runs.
type deployed struct {
	handlers atomic.Pointer[map[string]string] // hook by name of the handler
	asked    atomic.Int32
	url      string
	server   *httptest.Server
}

// deploy starts an extension with handlers, given as "name=apiVersion/Hook".
func (w *world) deploy(handlers ...string) *deployed {
	w.t.Helper()
	d := &deployed{}
	d.redeploy(handlers...)
	d.server = w.ca.Serve(w.t, d, nil)
	d.url = d.server.URL
	return d
}

func (d *deployed) redeploy(handlers ...string) {
	m := map[string]string{}
	for _, h := range handlers {
		name, of, _ := strings.Cut(h, "=")
		m[name] = of
	}
	d.handlers.Store(&m)
}

func (d *deployed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	handlers := *d.handlers.Load()
	if strings.HasSuffix(r.URL.Path, "/discovery") {
		response := runtimehooksv1.DiscoveryResponse{}
		response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		for name, of := range handlers {
			i := strings.LastIndexByte(of, '/')
			response.Handlers = append(response.Handlers, runtimehooksv1.ExtensionHandler{
				Name: name, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: of[:i], Hook: of[i+1:]},
			})
		}
		_ = json.NewEncoder(w).Encode(response)
		return
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if _, ok := handlers[name]; !ok {
		http.NotFound(w, r)
		return
	}
	d.asked.Add(1)
	_, _ = io.WriteString(w, `{"status":"Success","message":"`+name+`"}`)
}

const gate = "gate=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate"

// call calls all handlers of BeforeClusterCreate and returns their messages.
func (w *world) call() (string, error) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := w.calls.CallAllExtensions(w.t.Context(), runtimehooksv1.BeforeClusterCreate, cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
	return response.Message, err
}

// answers waits until calls return these messages.
func (w *world) answers(want string) {
	w.t.Helper()
	w.eventually("calls", func() error {
		got, err := w.call()
		if err != nil || got != want {
			return fmt.Errorf("calls return %q, %v, want %q", got, err, want)
		}
		return nil
	})
}

func (w *world) secret(name string, data map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
	err := w.admin.Update(w.t.Context(), secret)
	if err != nil {
		err = w.admin.Create(w.t.Context(), secret)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
