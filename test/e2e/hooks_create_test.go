package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// remove deletes a cluster that a test may have left behind. All extensions pass from now on, so that no hook blocks
// the deletion.
func (a *actor) remove(cluster string) {
	for _, extension := range []string{one, two, ignored} {
		for hook := range lifecycle {
			a.tell(extension, hook, line{})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := command(ctx, "kubectl", "delete", "cluster", cluster,
		"--ignore-not-found").CombinedOutput(); err != nil {
		a.t.Errorf("%v\n%s", err, out)
	}
}

// TestHooksOfCreationAndDeletion checks the hooks around the creation and the deletion of a real cluster: when each
// hook is called, that the first and the last hook block, what requests and answers contain, which extensions are
// called again, and what the Cluster says meanwhile. An extension whose failures are ignored must block nothing
// (CL-04).
func TestHooksOfCreationAndDeletion(t *testing.T) {
	const name = "hooked"
	a := newActor(t)
	t.Cleanup(func() { a.remove(name) })

	a.tell(one, "BeforeClusterCreate", line{blocks, "not yet", time.Second})
	must(t, "cluster", "create", name, "--workers", "0", "--wait=false")
	said := a.rounds(name, "BeforeClusterCreate")
	if made := shape(t, name); len(made) > 0 {
		t.Errorf("BeforeClusterCreate blocks, but these objects exist:\n%s", strings.Join(made, "\n"))
	}
	if refs := must(t, "kubectl", "get", "cluster", name, "-o",
		"jsonpath={.spec.infrastructureRef}{.spec.controlPlaneRef}"); refs != "" && refs != "{}{}" {
		t.Errorf("BeforeClusterCreate blocks, but the Cluster has the references %s", refs)
	}
	t.Attr("rule", "LH-06")
	condition(t, name, said)

	a.tell(one, "AfterControlPlaneInitialized", line{Manner: hangs})
	a.tell(one, "BeforeClusterCreate", line{})
	eventually(t, "AfterControlPlaneInitialized is called", func() error {
		if len(a.calls(one, "AfterControlPlaneInitialized")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	afterInitialization(t, name, a.calls(one, "AfterControlPlaneInitialized")[0].Time)
	must(t, "cluster", "scale", name, "--workers", "1", "--wait=false")
	a.asks(one, "AfterControlPlaneInitialized", 2) // the first of them may have begun before the cluster was scaled
	// When the hook fails, Cluster API returns before it handles MachineDeployments, so LH-09 is not met (D-38). If this
	// check fails one day, LH-09 is met: record the rule here, and remove the reason why no test records it.
	if got := workersOf(t, name); got != "0" {
		t.Errorf("while AfterControlPlaneInitialized hangs, the MachineDeployment has %q replicas, want 0", got)
	}
	a.tell(one, "AfterControlPlaneInitialized", line{})
	converges(t, name, 2)
	if got := workersOf(t, name); got != "1" {
		t.Errorf("after AfterControlPlaneInitialized, the MachineDeployment has %q replicas, want 1", got)
	}

	before := shape(t, name)
	if n := len(a.calls(one, "BeforeClusterDelete")); n > 0 {
		t.Errorf("before the deletion of the Cluster, there were %d calls of BeforeClusterDelete", n)
	}
	a.tell(one, "BeforeClusterDelete", line{blocks, "not yet", time.Second})
	must(t, "kubectl", "delete", "cluster", name, "--wait=false")
	said = a.rounds(name, "BeforeClusterDelete")
	sameShape(t, name, "while BeforeClusterDelete blocks", before)
	readyNodes(t, name)
	condition(t, name, "Cluster is deleting", said)
	if marked := must(t, "kubectl", "get", "cluster", name, "-o",
		"jsonpath={.metadata.annotations}"); strings.Contains(marked, "ok-to-delete") {
		t.Errorf("BeforeClusterDelete blocks, but the annotations are %s", marked)
	}
	t.Attr("rule", "LH-25")
	a.tell(one, "BeforeClusterDelete", line{})
	vanishes(t, name)
	t.Attr("rule", "LH-24")

	checkExchanges(t, a, name, "", "", "BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterDelete")
	if order := moments(t, name, one, two); !slices.Equal(order,
		[]string{"BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterDelete"}) {
		t.Errorf("want each hook once, from creation to deletion, got the order %v", order)
	}
	t.Attr("rule", "LH-05")
	passes := map[string]int{}
	excused := 0
	for _, c := range decode[struct {
		Calls []struct{ Hook, Extension, Answer string }
	}](t, "hook", "timeline", name).Calls {
		switch {
		case c.Extension == ignored && c.Answer == "Ignored":
			excused++
		case c.Extension != ignored && c.Answer == "Success" && strings.HasSuffix(c.Hook, "/AfterControlPlaneInitialized"):
			passes[c.Extension]++
		}
	}
	if passes[one] != 1 || excused == 0 {
		t.Errorf("AfterControlPlaneInitialized passed %d times, want once; failures were ignored %d times\n%s", passes[one],
			excused, fmt.Sprint(passes))
	}
	t.Attr("rule", "LH-08")
}

// afterInitialization checks that a call came after the control plane was initialized.
func afterInitialization(t *testing.T, cluster string, call time.Time) {
	t.Helper()
	type condition struct {
		Type, Status       string
		LastTransitionTime time.Time
	}
	type object struct {
		Status struct{ Conditions []condition }
	}
	conditions := decode[object](t, "kubectl", "get", "cluster", cluster).Status.Conditions
	if !slices.ContainsFunc(conditions, func(c condition) bool {
		return c.Type == "ControlPlaneInitialized" && c.Status == "True" && !call.Before(c.LastTransitionTime)
	}) {
		t.Errorf("AfterControlPlaneInitialized was called at %s, but the conditions are %+v", call, conditions)
	}
}

// workersOf returns the desired number of workers in the MachineDeployment of a cluster.
func workersOf(t *testing.T, cluster string) string {
	t.Helper()
	return must(t, "kubectl", "get", "machinedeployments", "-l", "cluster.x-k8s.io/cluster-name="+cluster,
		"-o", "jsonpath={.items[*].spec.replicas}")
}
