//go:build linux

package provider

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// linked returns reason and message of the host's condition Linked, or "" if it is absent.
func (w *world) linked(host string) (reason, message string) {
	w.t.Helper()
	c := conditions.Get(w.host(host), infrav1.LinkedCondition)
	if c == nil {
		return "", ""
	}
	if c.Status != metav1.ConditionFalse {
		w.t.Errorf("condition Linked is %s, want it False or absent", c.Status)
	}
	return c.Reason, c.Message
}

// later advances the clock and lets everything settle.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(d))
	w.settle()
}

// lose deletes an object by force, despite its finalizers.
func (w *world) lose(o client.Object) {
	w.t.Helper()
	edit(w, o, func(o client.Object) { o.SetFinalizers(nil) })
	if err := w.api.Delete(w.t.Context(), o); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
}

// kept fails the test if the host lost its claim or was powered off.
func (w *world) kept(host string) {
	w.t.Helper()
	if c := w.host(host).Spec.Claim; c == nil || c.Released || !w.running[host] {
		w.t.Errorf("the claim is %+v, and the host runs: %t; want it kept, because the missing object may still arrive",
			c, w.running[host])
	}
}

func TestClaimWithoutAClusterIsMarked(t *testing.T) { // SG-05
	for name, c := range map[string]struct {
		lose         func(*world)
		what, wayOut string
		before       string // condition Ready before the timeout
	}{
		"the Cluster is gone": {
			lose: func(w *world) { w.lose(get(w, "demo", &clusterv1.Cluster{})) },
			what: "Cluster demo of CapstanMachine w1", wayOut: "delete CapstanMachine w1", before: "True InUse",
		},
		"the Machine is gone": {
			lose: func(w *world) { w.lose(get(w, "w1", &clusterv1.Machine{})) },
			what: "CapstanMachine w1 claims the host, but no Machine owns it", wayOut: "delete CapstanMachine w1",
			before: "True InUse",
		},
		"the CapstanMachine is gone": {
			lose: func(w *world) { w.lose(w.machine("w1")) },
			what: "CapstanMachine w1 claims the host but does not exist", wayOut: "spec.claim.released: true",
			before: "False MachineGone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := oneWorker(t)
			w.settle()
			host := w.machine("w1").Status.Host
			if reason, _ := w.linked(host); reason != "" {
				t.Fatalf("while the Cluster exists, Linked says %s", reason)
			}
			recorder := events.NewFakeRecorder(100)
			w.hosts.Recorder, w.hosts.UnlinkedTimeout = recorder, 20*time.Minute
			c.lose(w)
			w.settle()
			w.later(18 * time.Minute)
			if reason, message := w.linked(host); reason != infrav1.UnlinkedReason || !strings.Contains(message, c.what) {
				t.Errorf("before the time is over, Linked says %s: %s", reason, message)
			}
			w.readyIs(w.host(host), c.before)
			w.later(2 * time.Minute)
			reason, message := w.linked(host)
			if reason != infrav1.LeftBehindReason || !strings.Contains(message, "20m0s: "+c.what) ||
				!strings.Contains(message, c.wayOut) {
				t.Errorf("after the time is over, Linked says %s: %s", reason, message)
			}
			t.Attr("rule", "SG-05")
			w.readyIs(w.host(host), "False LeftBehind")
			var marked []string
			for len(recorder.Events) > 0 {
				if e := <-recorder.Events; strings.Contains(e, infrav1.LeftBehindReason) {
					marked = append(marked, e)
				}
			}
			if len(marked) != 1 || !strings.HasPrefix(marked[0], "Warning") || !strings.Contains(marked[0], c.what) {
				t.Errorf("the events are %q, want one warning", marked)
			}
			w.later(24 * time.Hour)
			w.kept(host)
		})
	}
}

func TestTheTimeWithoutAClusterIsKeptOverRestarts(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	host := w.machine("w1").Status.Host
	w.lose(get(w, "demo", &clusterv1.Cluster{}))
	w.settle()
	w.later(50 * time.Minute)
	w.restart()
	w.later(10 * time.Minute)
	if reason, _ := w.linked(host); reason != infrav1.LeftBehindReason {
		t.Errorf("after a restart and an hour, Linked says %q", reason)
	}
}

func TestAMoveStartsTheTimeWithoutAClusterAgain(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	host := w.machine("w1").Status.Host
	cluster := get(w, "demo", &clusterv1.Cluster{})
	w.lose(cluster)
	w.settle()
	w.later(50 * time.Minute)
	h := w.host(host)
	h.Status.Conditions = nil
	w.must(w.api.Status().Update(t.Context(), h))
	w.settle()
	w.later(50 * time.Minute)
	if reason, _ := w.linked(host); reason != infrav1.UnlinkedReason {
		t.Errorf("less than an hour after the move, Linked says %q", reason)
	}
	cluster.ResourceVersion = ""
	w.must(w.api.Create(t.Context(), cluster))
	w.later(time.Minute)
	if reason, _ := w.linked(host); reason != "" {
		t.Errorf("with its Cluster here, Linked says %q", reason)
	}
	w.kept(host)
}

func TestAPausedClaimIsNotMarked(t *testing.T) {
	for name, pause := range map[string]func(*world){
		"the Cluster is paused": func(w *world) {
			edit(w, get(w, "demo", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
		},
		"the CapstanMachine is paused, and its Cluster is elsewhere": func(w *world) {
			edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) {
				m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			})
			w.lose(get(w, "demo", &clusterv1.Cluster{}))
		},
		"the host is paused, and its Cluster is elsewhere": func(w *world) {
			edit(w, w.host(w.machine("w1").Status.Host), func(h *infrav1.CapstanHost) {
				h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			})
			w.lose(get(w, "demo", &clusterv1.Cluster{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := oneWorker(t)
			w.settle()
			host := w.machine("w1").Status.Host
			pause(w)
			w.settle()
			w.later(2 * time.Hour)
			if reason, message := w.linked(host); reason != "" {
				t.Errorf("Linked says %s: %s", reason, message)
			}
			w.kept(host)
		})
	}
}
