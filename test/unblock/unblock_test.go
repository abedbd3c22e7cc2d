package unblock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/runtime/blockevent"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/unblock"
	"github.com/capstan-dev/capstan/test/apiserver"
)

const limit = 90 * time.Second

// api is the API server of all tests of this package.
var api *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	crds, err := apiserver.Core("clusters")
	if err == nil {
		api, err = apiserver.Start(apiserver.Options{CRDs: crds})
	}
	defer func() {
		if api != nil {
			if err := api.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			}
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	return m.Run()
}

// world is a Cluster whose upgrades an extension may block, and the client of a management plane, with everything that
// the client reports.
type world struct {
	t       *testing.T
	admin   ctrlclient.Client
	server  *hooktest.Extension
	cluster *clusterv1.Cluster
	journal string
	blocks  atomic.Bool

	calls *client.Client
	end   func() // stops the plane
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := ctrlclient.New(api.Config, ctrlclient.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, admin: admin, journal: filepath.Join(t.TempDir(), "hooks.jsonl"),
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: name + "-"}},
	}
	w.cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "local"}, Version: "v1.35.4"}
	if err := admin.Create(t.Context(), w.cluster); err != nil {
		t.Fatal(err)
	}
	w.blocks.Store(true)
	w.server = hooktest.Start(t, server.Handle(hook.BeforeClusterUpgrade, "window",
		func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest,
			*runtimehooksv1.BeforeClusterUpgradeResponse) error {
			if w.blocks.Load() {
				return server.Wait(time.Second, "closed until Saturday")
			}
			return nil
		}))
	w.startPlane()
	t.Cleanup(func() { w.end() })
	return w
}

// startPlane plays a new process of the plane. It starts with the journal (the record of calls) of the previous
// process.
func (w *world) startPlane() {
	w.t.Helper()
	known, err := record.Read(w.journal)
	if err != nil {
		w.t.Fatal(err)
	}
	journal, err := record.Open(w.journal, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	desk := unblock.NewDesk(w.admin, w.admin)
	events, err := blockevent.New(blockevent.Options{
		Reader: w.admin, Writer: w.admin, Calls: known, Component: "test",
		Over: func(ctx context.Context, cluster *clusterv1.Cluster, hook string) error {
			return desk.Clear(ctx, cluster, hook)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.calls, err = client.New(client.Options{Pass: desk.Pass, Observer: func(call record.Call) {
		if err := journal.Append(call); err != nil {
			w.t.Error(err)
		}
		events.Observe(call)
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		w.t.Fatal(err)
	}
	discovered, err := w.calls.Discover(w.t.Context(), extension.Config(w.server.URL, w.server.CA))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.calls.Register(discovered); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- events.Start(ctx) }()
	w.end = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		w.calls.Close()
		if err := journal.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// asks calls the hook before an upgrade of the Cluster, as reconcilers do, and reports whether the Cluster may
// continue.
func (w *world) asks(cluster *clusterv1.Cluster) (through bool) {
	w.t.Helper()
	response := &runtimehooksv1.BeforeClusterUpgradeResponse{}
	request := &runtimehooksv1.BeforeClusterUpgradeRequest{
		Cluster: *cluster, FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: "v1.36.3",
	}
	if err := w.calls.CallAllExtensions(w.t.Context(), runtimehooksv1.BeforeClusterUpgrade, cluster, request,
		response); err != nil {
		w.t.Fatal(err)
	}
	return response.RetryAfterSeconds == 0
}

func (w *world) read() *clusterv1.Cluster {
	w.t.Helper()
	if err := w.admin.Get(w.t.Context(), ctrlclient.ObjectKeyFromObject(w.cluster), w.cluster); err != nil {
		w.t.Fatal(err)
	}
	return w.cluster.DeepCopy()
}

func (w *world) grant() {
	w.t.Helper()
	order := unblock.Order{
		Hook: "BeforeClusterUpgrade", By: "alice", Reason: "security fix", Until: time.Now().Add(10 * time.Minute),
	}
	if err := unblock.Grant(w.t.Context(), w.admin, w.read(), order); err != nil {
		w.t.Fatal(err)
	}
}

// events returns the number of Events with a reason, and the text of the last one.
func (w *world) events(reason string) (count int, message string) {
	w.t.Helper()
	list := &corev1.EventList{}
	if err := w.admin.List(w.t.Context(), list, ctrlclient.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason && e.InvolvedObject.UID == w.cluster.UID {
			count++
			message = e.Type + " " + e.Message
		}
	}
	return count, message
}

func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	deadline, tick := time.After(limit), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			w.t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

func (w *world) hasPermission() bool { return w.read().Annotations[unblock.Annotation] != "" }

// An administrator lets a Cluster through once; an Event and the journal say who did so and why. A restarted process
// does not report the beginning of the same block again.
func TestUnblock(t *testing.T) {
	w := newWorld(t, "blue")
	w.until("there is an Event about the block", func() bool {
		n, message := w.events(blockevent.ReasonBlocked)
		return !w.asks(w.read()) && n == 1 && strings.Contains(message,
			"Normal Hook BeforeClusterUpgrade has been blocked since ") &&
			strings.HasSuffix(message, "handler window of extension capstan waits: closed until Saturday")
	})
	w.end()
	w.startPlane()

	w.grant()
	seen := w.read() // what a cache may still show for a while
	if !w.asks(seen) {
		t.Error("the Cluster waits although an administrator has let it through")
	}
	if w.hasPermission() {
		t.Error("the permission is still there after its use")
	}
	seen.Labels = map[string]string{"changed": "so that nobody answers from memory"}
	if w.asks(seen) {
		t.Error("a permission was used twice")
	}
	w.until("there is an Event about what the administrator did", func() bool {
		n, message := w.events(blockevent.ReasonUnblocked)
		return n == 1 && strings.HasPrefix(message, "Warning Hook BeforeClusterUpgrade was passed after ") &&
			strings.HasSuffix(message, "by alice: security fix")
	})
	w.until("another block has begun", func() bool {
		n, _ := w.events(blockevent.ReasonBlocked)
		return n == 2
	})
	calls, err := record.Read(w.journal)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, call := range calls {
		if call.Answer == record.Passed {
			passed++
			if call.PassedBy != "alice: security fix" || call.Message != "closed until Saturday" {
				t.Errorf("the journal does not say who let the call pass, or why it was blocked: %+v", call)
			}
		}
	}
	if passed != 1 {
		t.Errorf("the journal has %d calls that an administrator let pass, want 1", passed)
	}
}

// A permission that was not needed, or was for an earlier spec of the Cluster, does not apply later.
func TestOldPermissions(t *testing.T) {
	w := newWorld(t, "green")
	if w.asks(w.read()) {
		t.Fatal("the Cluster goes through although the extension blocks")
	}
	w.grant()
	w.read()
	w.cluster.Spec.Topology.Version = "v1.36.3"
	if err := w.admin.Update(t.Context(), w.cluster); err != nil {
		t.Fatal(err)
	}
	if w.asks(w.read()) {
		t.Error("a permission for an earlier spec let the changed Cluster through")
	}
	w.grant()
	w.blocks.Store(false)
	if !w.asks(w.read()) {
		t.Error("the Cluster waits although the extension does not block")
	}
	w.until("the permission that was not needed is gone", func() bool { return !w.hasPermission() })
	w.until("there is an Event about the end of the block", func() bool {
		n, message := w.events(blockevent.ReasonReleased)
		return n == 1 && strings.HasPrefix(message, "Normal Hook BeforeClusterUpgrade continues after ")
	})
	w.blocks.Store(true)
	cluster := w.read()
	cluster.Labels = map[string]string{"changed": "again"}
	if w.asks(cluster) {
		t.Error("an old permission let the Cluster through")
	}
}

// A permission that was not needed is removed even if others write to the Cluster at that moment; another permission
// stays.
func TestClearBesideOthers(t *testing.T) {
	for name, replaced := range map[string]bool{"the same permission": false, "another permission": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "clear")
			order := unblock.Order{
				Hook: "BeforeClusterUpgrade", By: "me", Reason: "first", Until: time.Now().Add(time.Minute).Truncate(time.Second),
			}
			if err := unblock.Grant(t.Context(), w.admin, w.cluster, order); err != nil {
				t.Fatal(err)
			}
			stale := &clusterv1.Cluster{}
			if err := w.admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(w.cluster), stale); err != nil {
				t.Fatal(err)
			}
			fresh := stale.DeepCopy()
			fresh.Labels = map[string]string{"changed": "meanwhile"}
			if err := w.admin.Update(t.Context(), fresh); err != nil {
				t.Fatal(err)
			}
			if replaced {
				order.Reason = "second"
				if err := unblock.Grant(t.Context(), w.admin, fresh, order); err != nil {
					t.Fatal(err)
				}
			}
			if err := unblock.NewDesk(w.admin, w.admin).Clear(t.Context(), stale, "BeforeClusterUpgrade"); err != nil {
				t.Error(err)
			}
			if err := w.admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(w.cluster), fresh); err != nil {
				t.Fatal(err)
			}
			if _, there := fresh.Annotations[unblock.Annotation]; there != replaced {
				t.Errorf("after Clear, the Cluster has a permission: %t, want the opposite", there)
			}
		})
	}
}

// A permission that was removed no longer applies, even for a reader that read the object before the removal.
func TestAPermissionIsUsedOnce(t *testing.T) {
	w := newWorld(t, "once")
	order := unblock.Order{
		Hook: "BeforeClusterUpgrade", By: "me", Reason: "first", Until: time.Now().Add(time.Minute).Truncate(time.Second),
	}
	if err := unblock.Grant(t.Context(), w.admin, w.cluster, order); err != nil {
		t.Fatal(err)
	}
	desk := unblock.NewDesk(w.admin, w.admin)
	var passes []*client.Pass
	for range 2 {
		seen := &clusterv1.Cluster{}
		if err := w.admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(w.cluster), seen); err != nil {
			t.Fatal(err)
		}
		pass, err := desk.Pass(t.Context(), seen, "BeforeClusterUpgrade")
		if err != nil || pass == nil {
			t.Fatalf("want the permission, got %v, %v", pass, err)
		}
		passes = append(passes, pass)
	}
	if err := passes[0].Use(t.Context()); err != nil {
		t.Error(err)
	}
	if err := passes[1].Use(t.Context()); err == nil || !strings.Contains(err.Error(), "already used") {
		t.Errorf("using the permission a second time: %v", err)
	}
}
