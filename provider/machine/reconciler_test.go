package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pool"
)

// pass reconciles w1 and then advances the clock by a second.
func (f *fixture) pass() error {
	f.t.Helper()
	f.watch()
	key := types.NamespacedName{Namespace: ns, Name: "w1"}
	_, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: key})
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	return err
}

// passes reconciles w1 many times. It returns how often its status was written, and the last error.
func (f *fixture) passes(n int) (writes int, err error) {
	f.t.Helper()
	f.calls = nil
	for range n {
		err = f.pass()
	}
	for _, call := range f.calls {
		if call == statusWrite {
			writes++
		}
	}
	return writes, err
}

const statusWrite = "patch status CapstanMachine"

// is returns status, reason and message of a condition of w1.
func (f *fixture) is(kind string) string {
	f.t.Helper()
	c := conditions.Get(f.machine("w1"), kind)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
}

func forbidden() error {
	secrets := schema.GroupResource{Resource: "secrets"}
	return apierrors.NewForbidden(secrets, "w1-data", errors.New(`User "capstan" cannot get it`))
}

// TestARefusedRightIsShown checks what a user sees while the controller lacks a right, and that the failure is no
// longer shown once the right is back.
func TestARefusedRightIsShown(t *testing.T) {
	f := newFixture(t, world()...)
	f.fault = named("get Secret", forbidden())
	writes, err := f.passes(20)
	if !apierrors.IsForbidden(err) || writes != 1 {
		t.Errorf("error %v; the status was written %d times, want once", err, writes)
	}
	const want = `False AccessDenied read the bootstrap data: reading the bootstrap data in Secret default/w1-data: ` +
		`secrets "w1-data" is forbidden: User "capstan" cannot get it; grant the controller this right`
	for _, kind := range []string{infrav1.ReconciledCondition, infrav1.ReadyCondition, infrav1.HostClaimedCondition} {
		if got := f.is(kind); !strings.HasPrefix(got, want) {
			t.Errorf("%s is\n%s, want\n%s", kind, got, want)
		}
	}
	if got := said(f); strings.Count(got, "AccessDenied") != 1 {
		t.Errorf("events %q, want one", got)
	}
	f.fault = nil
	if writes, err := f.passes(5); err != nil || writes != 1 {
		t.Errorf("once the right is back: error %v, %d writes of the status", err, writes)
	}
	if got := f.is(infrav1.ReconciledCondition); got != "" || f.is(infrav1.HostClaimedCondition) != "True HostClaimed" {
		t.Errorf("once the right is back, Reconciled is %q, HostClaimed %q", got, f.is(infrav1.HostClaimedCondition))
	}
}

// TestEveryStepThatFailsIsShown makes each kind of call fail permanently, and checks the object.
func TestEveryStepThatFailsIsShown(t *testing.T) {
	succeeded := claimed("host-01", reported(infrav1.BootstrapSucceeded))
	hasFinalizer := machineIs(func(m *infrav1.CapstanMachine) { m.Finalizers = []string{infrav1.MachineFinalizer} })
	all := func(edits ...change) []change { return edits }
	for call, c := range map[string]struct {
		edits []change
		step  string
	}{
		"get Machine":          {step: "owner"},
		"get Cluster":          {step: "pause"},
		"patch CapstanMachine": {step: "finalizer"},
		"list CapstanHostList": {edits: all(hasFinalizer), step: "find the host"},
		"patch CapstanHost":    {step: "claim a host"},
		"create Secret":        {step: "deliver the bootstrap data"},
		"delete Secret":        {edits: all(succeeded, deliveredTo("host-01")), step: "bootstrap report"},
	} {
		t.Run(call, func(t *testing.T) {
			f := newFixture(t, world(c.edits...)...)
			f.fault = named(call, errInjected)
			writes, err := f.passes(30)
			if !errors.Is(err, errInjected) || writes != 1 {
				t.Errorf("error %v, %d writes of the status", err, writes)
			}
			for _, kind := range []string{infrav1.ReconciledCondition, infrav1.ReadyCondition} {
				if got := f.is(kind); !strings.HasPrefix(got, "False StepFailed "+c.step+": ") {
					t.Errorf("%s is %q, want step %q", kind, got, c.step)
				}
			}
			if ptr.Deref(f.machine("w1").Status.Initialization.Provisioned, false) {
				t.Error("the machine is provisioned although a step fails (IM-49)")
			}
			f.fault = nil
			if _, err := f.passes(2); err != nil || f.is(infrav1.ReconciledCondition) != "" {
				t.Errorf("once the call works: error %v, Reconciled %q", err, f.is(infrav1.ReconciledCondition))
			}
		})
	}
	t.Attr("rule", "IM-49 v1beta2")
}

// TestAFailedBootstrapIsNotMissed checks that a pass that could not delete the data does not report the failed
// bootstrap yet, because the next pass would assume that the data is deleted.
func TestAFailedBootstrapIsNotMissed(t *testing.T) {
	f := newFixture(t, world(claimed("host-01", reported(infrav1.BootstrapFailed)), deliveredTo("host-01"))...)
	f.fault = named("delete Secret", errInjected)
	f.passes(10)
	if got := f.is(infrav1.BootstrappedCondition); strings.Contains(got, infrav1.BootstrapFailedReason) {
		t.Errorf("Bootstrapped is %q", got)
	}
	f.fault = nil
	f.passes(1)
	got := f.is(infrav1.BootstrappedCondition)
	if !slices.Contains(f.calls, "delete Secret") || !strings.HasPrefix(got, "False BootstrapFailed") {
		t.Errorf("calls %v, Bootstrapped is %q", f.calls, got)
	}
}

func TestWhatIsNotShown(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "capstanmachines"}, "w1", errInjected)
	for name, c := range map[string]struct {
		err    error
		passes int
	}{
		"a conflict":                    {fmt.Errorf("x: %w", conflict), 10},
		"a failure that has just begun": {errInjected, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world()...)
			f.fault = named("patch CapstanMachine", c.err)
			if writes, _ := f.passes(c.passes); writes != 0 || len(f.machine("w1").Status.Conditions) != 0 {
				t.Errorf("%d writes, conditions %+v", writes, f.machine("w1").Status.Conditions)
			}
		})
	}
}

// TestAMachineThatWorksStaysReady checks that a machine stays Ready if only its controller fails.
func TestAMachineThatWorksStaysReady(t *testing.T) {
	f := newFixture(t, world(claimed("host-01", reported(infrav1.BootstrapSucceeded)))...)
	if _, err := f.passes(2); err != nil || f.is(infrav1.ReadyCondition) != "True Ready" {
		t.Fatalf("error %v, Ready %q", err, f.is(infrav1.ReadyCondition))
	}
	f.fault = named("list CapstanHostList", errInjected)
	f.Hosts = pool.New(f.Reader, "") // a restarted process begins with an empty pool
	writes, _ := f.passes(30)
	m := f.machine("w1")
	provisioned := ptr.Deref(m.Status.Initialization.Provisioned, false)
	if writes != 1 || f.is(infrav1.ReadyCondition) != "True Ready" || !provisioned || m.Status.Host == "" {
		t.Errorf("%d writes, Ready %q, status %+v", writes, f.is(infrav1.ReadyCondition), m.Status)
	}
	if got := f.is(infrav1.ReconciledCondition); !strings.HasPrefix(got, "False StepFailed find the host: listing hosts") {
		t.Errorf("Reconciled is %q", got)
	}
}

func TestADeletionThatFailsIsShown(t *testing.T) { // IM-30, IM-59
	f := newFixture(t, world(claimed("host-01"), deleted)...)
	f.fault = named("patch CapstanHost", errInjected)
	writes, _ := f.passes(30)
	if got := f.is(infrav1.ReadyCondition); writes != 1 || !strings.HasPrefix(got, "False Deleting release the host: ") {
		t.Errorf("%d writes, Ready %q", writes, got)
	}
	if m := f.machine("w1"); !slices.Contains(m.Finalizers, infrav1.MachineFinalizer) {
		t.Error("the finalizer is gone")
	}
	t.Attr("rule", "IM-59 v1beta2")
}

// TestPausedObjectsSayNothingElse checks that a failure before the Cluster is known to be paused is shown, unless the
// object itself is paused (IM-64).
func TestPausedObjectsSayNothingElse(t *testing.T) {
	annotated := machineIs(func(m *infrav1.CapstanMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	f := newFixture(t, world(annotated)...)
	f.fault = named("get Cluster", errInjected)
	f.passes(10)
	got := f.machine("w1").Status.Conditions
	if len(got) != 1 || got[0].Type != clusterv1.PausedCondition || got[0].Status != metav1.ConditionTrue {
		t.Errorf("conditions %+v", got)
	}
	f = newFixture(t, world()...)
	f.fault = named("get Cluster", errInjected)
	f.passes(10)
	if f.is(clusterv1.PausedCondition) != "" || f.is(infrav1.ReconciledCondition) == "" {
		t.Errorf("conditions %+v", f.machine("w1").Status.Conditions)
	}
}

// TestFailuresAreForgotten checks that a deleted machine leaves no record.
func TestFailuresAreForgotten(t *testing.T) {
	f := newFixture(t, world()...)
	f.fault = named("get Cluster", errInjected)
	f.passes(5)
	f.fault = nil
	if err := f.api.Delete(t.Context(), f.machine("w1")); err != nil {
		t.Fatal(err)
	}
	if err := f.pass(); err != nil {
		t.Fatal(err)
	}
	for _, o := range world() {
		if _, ok := o.(*infrav1.CapstanMachine); ok {
			if err := f.api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.fault = named("get Cluster", errInjected)
	if writes, _ := f.passes(2); writes != 0 {
		t.Errorf("a new machine of the same name goes on with the failures of the old one: %d writes", writes)
	}
}
