package provider

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// refuses makes calls of this name fail for half a minute, and returns how often the status of a kind was written in
// that time.
func (w *world) refuses(call, kind string) (writes int) {
	w.t.Helper()
	w.broken = call
	w.changes()
	for range 30 {
		w.pass()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	w.broken = ""
	for _, made := range w.changes() {
		if made == "patch status "+kind {
			writes++
		}
	}
	return writes
}

// reconciledIs fails the test unless the condition Reconciled is False with a message about the step. If step is empty,
// there must be no such condition.
func (w *world) reconciledIs(o conditions.Getter, step string) {
	w.t.Helper()
	c := conditions.Get(o, infrav1.ReconciledCondition)
	switch {
	case step == "" && c == nil:
	case c == nil || step == "" || c.Reason != infrav1.StepFailedReason || !strings.HasPrefix(c.Message, step+": "):
		w.t.Errorf("Reconciled is %+v, want step %q", c, step)
	}
}

func TestAHostWhosePassFailsSaysSo(t *testing.T) {
	w := newWorld(t, hosts(1, "")...)
	if n := w.refuses("create unstructured.Unstructured", "v1beta2.CapstanHost"); n != 1 {
		t.Errorf("the status was written %d times, want once", n)
	}
	w.reconciledIs(w.host("host-01"), "identity")
	w.readyIs(w.host("host-01"), "False StepFailed")
	w.settle()
	w.reconciledIs(w.host("host-01"), "")
	w.readyIs(w.host("host-01"), "True Ready")

	w.refuses("get v1.Lease", "v1beta2.CapstanHost")
	w.reconciledIs(w.host("host-01"), "heartbeat")
	w.readyIs(w.host("host-01"), "True Ready") // only its controller fails
	w.settle()
	w.reconciledIs(w.host("host-01"), "")
}

func TestAClusterWhosePassFailsSaysSo(t *testing.T) { // IC-23, IC-48
	w := newWorld(t, demo(infrav1.LoadBalancerExternal)...)
	edit(w, get(w, "demo", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
	})
	const hosts = "list v1beta2.CapstanHostList"
	if n := w.refuses(hosts, "v1beta2.CapstanCluster"); n != 1 {
		t.Errorf("the status was written %d times, want once", n)
	}
	c := w.capstanCluster("demo-infra")
	w.reconciledIs(c, "failure domains")
	w.readyIs(c, "False StepFailed")
	if ptr.Deref(c.Status.Initialization.Provisioned, false) {
		t.Error("the cluster is provisioned although its passes fail")
	}
	w.settle()
	w.reconciledIs(w.capstanCluster("demo-infra"), "")
	w.readyIs(w.capstanCluster("demo-infra"), "True Ready")

	w.refuses(hosts, "v1beta2.CapstanCluster")
	w.reconciledIs(w.capstanCluster("demo-infra"), "failure domains")
	w.readyIs(w.capstanCluster("demo-infra"), "True Ready")

	w.must(w.api.Delete(t.Context(), w.capstanCluster("demo-infra")))
	w.refuses("list v1beta2.CapstanMachineList", "v1beta2.CapstanCluster")
	c = w.capstanCluster("demo-infra")
	w.readyIs(c, "False Deleting")
	if got := conditions.GetMessage(c, infrav1.ReadyCondition); !strings.HasPrefix(got, "machines: listing machines") {
		t.Errorf("the message about the deletion is %q", got)
	}
	w.settle()
	if w.exists("demo-infra", &infrav1.CapstanCluster{}) {
		t.Error("the cluster can't be deleted")
	}
}
