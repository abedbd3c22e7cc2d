package local

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// withConditions adds conditions, each "Type Status Reason message".
func withConditions(h *infrav1.CapstanHost, conditions ...string) *infrav1.CapstanHost {
	for _, text := range conditions {
		part := strings.SplitN(text, " ", 4)
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{
			Type: part[0], Status: metav1.ConditionStatus(part[1]), Reason: part[2], Message: part[3],
		})
	}
	return h
}

func TestWaitsFor(t *testing.T) {
	held := &infrav1.HostClaim{Machine: "m", ProviderID: "p"}
	released := &infrav1.HostClaim{Machine: "m", ProviderID: "p", Released: true}
	host := func(claim *infrav1.HostClaim, edit func(*infrav1.CapstanHost), conditions ...string) *infrav1.CapstanHost {
		h := withConditions(after(claim, nil), conditions...)
		if edit != nil {
			edit(h)
		}
		return h
	}
	deleting := func(h *infrav1.CapstanHost) { now := metav1.Now(); h.DeletionTimestamp = &now }
	drain := func(h *infrav1.CapstanHost) { h.Spec.Drain = true }
	both := func(h *infrav1.CapstanHost) { deleting(h); drain(h) }
	cordon := func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true }
	maintain := func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "disks" }
	const ready, online = "Ready True Ready ", "HostOnline True HostOnline "
	for name, c := range map[string]struct {
		host *infrav1.CapstanHost
		want string
	}{
		"a new host": {host(nil, nil), "the manager to reconcile it"},
		"a host whose agent has not reported yet": {
			host(nil, nil, "Ready False HostStarting no heartbeat yet"), "no heartbeat yet",
		},
		"a free host":                  {host(nil, nil, ready), "a machine to claim it"},
		"a host in use":                {host(held, nil, "Ready True InUse in use"), ""},
		"a free host that is cordoned": {host(nil, cordon, ready), "capstan host uncordon rack1"},
		"a host in use that is cordoned": {
			host(held, cordon, "Ready True InUse in use"), "capstan host uncordon rack1",
		},
		"a host that is offline": {host(nil, nil, "Ready False HostOffline no heartbeat"), "no heartbeat"},
		"a drain that the manager has not seen yet": {
			host(held, drain, "Ready True InUse in use"), "the manager to reconcile it",
		},
		"a drained host": {host(nil, drain, ready, "Drained True Drained x"), "uncordon rack1"},
		"a host that is being drained": {
			host(held, drain, "Drained False WaitingForMachine Machine w: Pod a/b"), "Machine w: Pod a/b",
		},
		"a host that is being cleaned": {
			host(released, drain, online, "Clean False Cleaning x"), "its agent to clean up after",
		},
		"a released host": {host(released, drain, online, "Clean False InUse x"), "its agent to clean up after"},
		"a released local host": {
			host(released, func(h *infrav1.CapstanHost) { h.Spec.Supplier = "dock" }, online, "Clean False InUse x"),
			"its supplier to destroy it after machine m",
		},
		"a host with leftovers": {host(released, nil, online, "Clean False LeftoversFound x"), "host accept rack1"},
		"a host that is not clean and whose agent does not report": {
			host(released, deleting, "HostOnline False HostOffline x", "Clean False Cleaning x"),
			"capstan host abandon rack1",
		},
		"a host in maintenance": {host(nil, maintain, "Drained True InMaintenance x"), "capstan host uncordon rack1"},
		"a host in use that is being deleted": {
			host(held, deleting, "Ready True InUse in use"), "capstan host drain rack1",
		},
		"a free host that is being deleted":        {host(nil, deleting, ready), "the manager to remove its account"},
		"a host that is being drained and deleted": {host(held, both, "Drained False X y"), "y"},
		"a host without any conditions":            {host(nil, drain), "the manager to reconcile it"},
	} {
		t.Run(name, func(t *testing.T) {
			got := WaitsFor(c.host)
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// inventoryOf returns a client of an API server with these hosts.
func inventoryOf(t *testing.T, hosts ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(hosts...).
		WithStatusSubresource(&infrav1.CapstanHost{}).Build()
}

func TestHostWork(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "rack1"}
	type call = func(context.Context, client.Client) (*infrav1.CapstanHost, error)
	cordon := func(ctx context.Context, c client.Client) (*infrav1.CapstanHost, error) {
		return CordonHost(ctx, c, key)
	}
	uncordon := func(ctx context.Context, c client.Client) (*infrav1.CapstanHost, error) {
		return UncordonHost(ctx, c, key)
	}
	drain := func(ctx context.Context, c client.Client) (*infrav1.CapstanHost, error) {
		return DrainHost(ctx, c, key)
	}
	maintain := func(why string) call {
		return func(ctx context.Context, c client.Client) (*infrav1.CapstanHost, error) {
			return MaintainHost(ctx, c, key, why)
		}
	}
	for name, c := range map[string]struct {
		calls []call
		want  work
		fail  string
	}{
		"cordon":                {calls: []call{cordon}, want: work{cordon: true}},
		"cordon twice":          {calls: []call{cordon, cordon}, want: work{cordon: true}},
		"drain":                 {calls: []call{drain}, want: work{cordon: true, drain: true}},
		"cordon a drained host": {calls: []call{drain, cordon}, want: work{cordon: true, drain: true}},
		"maintenance":           {calls: []call{maintain("disks")}, want: work{cordon: true, maintenance: "disks"}},
		"maintenance with another reason": {
			calls: []call{maintain("a"), maintain("b")}, want: work{cordon: true, maintenance: "b"},
		},
		"uncordon ends all":              {calls: []call{drain, maintain("a"), uncordon}},
		"uncordon a host in use":         {calls: []call{uncordon}},
		"maintenance without a reason":   {calls: []call{maintain("")}, fail: "a reason of 1 to 256"},
		"maintenance with a long reason": {calls: []call{maintain(strings.Repeat("x", 257))}, fail: "1 to 256"},
	} {
		t.Run(name, func(t *testing.T) {
			api := inventoryOf(t, after(nil, nil))
			var err error
			for _, one := range c.calls {
				_, err = one(t.Context(), api)
			}
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || hint.Of(err) == "" {
					t.Errorf("got %v", err)
				}
				return
			}
			h := &infrav1.CapstanHost{}
			if err != nil || api.Get(t.Context(), key, h) != nil {
				t.Fatal(err)
			}
			got := work{h.Spec.Unschedulable, h.Spec.Drain, h.Spec.Maintenance}
			if got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	going := after(nil, nil)
	going.Finalizers = []string{infrav1.HostFinalizer}
	api := inventoryOf(t, going)
	if err := api.Delete(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	if _, err := UncordonHost(t.Context(), api, key); err == nil || !strings.Contains(err.Error(), "can't be undone") {
		t.Errorf("uncordoning a host that is being removed: got error %v", err)
	}
	if _, err := CordonHost(t.Context(), api, client.ObjectKey{Name: "none"}); err == nil || hint.Of(err) == "" {
		t.Errorf("cordoning a host that does not exist: got error %v, want one with a hint", err)
	}
}

func TestRemoveHost(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "rack1"}
	for name, c := range map[string]struct {
		edit  func(*infrav1.CapstanHost)
		drain bool
		fail  string
	}{
		"a free host": {edit: func(*infrav1.CapstanHost) {}},
		"a host in use": {edit: func(h *infrav1.CapstanHost) {
			h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
		}, drain: true},
		"a released host that is being cleaned": {edit: func(h *infrav1.CapstanHost) {
			h.Spec.Claim = &infrav1.HostClaim{Machine: "m", Released: true}
		}, drain: true},
		"a local host": {edit: func(h *infrav1.CapstanHost) { h.Spec.Supplier = "dock" }, fail: "is a local host"},
	} {
		t.Run(name, func(t *testing.T) {
			host := after(nil, nil)
			host.Finalizers = []string{infrav1.HostFinalizer}
			c.edit(host)
			api := inventoryOf(t, host)
			_, err := RemoveHost(t.Context(), api, key)
			h := &infrav1.CapstanHost{}
			if err := api.Get(t.Context(), key, h); err != nil {
				t.Fatal(err)
			}
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || !h.DeletionTimestamp.IsZero() {
					t.Errorf("got %v, %+v", err, h)
				}
				return
			}
			if err != nil || h.DeletionTimestamp.IsZero() || h.Spec.Drain != c.drain {
				t.Errorf("got %v, %+v", err, h.Spec)
			}
			if _, err := RemoveHost(t.Context(), api, key); err != nil {
				t.Errorf("removing the host again: %v", err)
			}
		})
	}
}

func TestWaitForAHost(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "rack1"}
	drains := after(&infrav1.HostClaim{Machine: "m"}, nil)
	drains.Spec.Drain = true
	drained := withConditions(drains.DeepCopy(), "Drained True Drained x")
	withConditions(drains, "Drained False WaitingForMachine Pod a/b can't be evicted")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var heard []string
	err := WaitDrained(ctx, inventoryOf(t, drains), key, func(what string) { heard = append(heard, what) })
	if err == nil || !strings.Contains(err.Error(), "Pod a/b") || !strings.Contains(hint.Of(err), "describe rack1") {
		t.Errorf("at the deadline: got error %v, want one with what the host waits for and a hint", err)
	}
	if len(heard) == 0 || heard[0] != "Pod a/b can't be evicted" {
		t.Errorf("the first reported reason to wait is wrong: %q", heard)
	}
	ignore := func(string) {}
	if err := WaitDrained(t.Context(), inventoryOf(t, drained), key, ignore); err != nil {
		t.Error(err)
	}
	if err := WaitDrained(t.Context(), inventoryOf(t), key, ignore); err == nil {
		t.Error("waiting for the drain of a host that does not exist returned no error")
	}
	if err := WaitRemoved(t.Context(), inventoryOf(t), key, ignore); err != nil {
		t.Error(err)
	}
	calls := 0
	goes := interceptor.NewClient(inventoryOf(t, drained), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if calls++; calls > 1 {
				key.Name = "gone"
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if err := WaitRemoved(t.Context(), goes, key, ignore); err != nil || calls != 2 {
		t.Errorf("WaitRemoved returned %v after %d reads, want nil after 2", err, calls)
	}
}
