package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
)

// The versions of the upgrade. The plan takes the control plane through each minor in between, and workers through as
// few as the version skew policy allows.
const (
	from = "v1.32.9"
	to   = "v1.36.3"
	next = "v1.36.4"
)

// chain lists the calls that let the Cluster through, from its creation to the end of its upgrade: the Cluster's hooks
// once, and the hooks of a step once for each step.
var chain = []string{
	"BeforeClusterCreate",
	"AfterControlPlaneInitialized",
	"BeforeClusterUpgrade v1.32.9 v1.36.3",
	"BeforeControlPlaneUpgrade v1.32.9 v1.33.5",
	"AfterControlPlaneUpgrade v1.33.5",
	"BeforeControlPlaneUpgrade v1.33.5 v1.34.4",
	"AfterControlPlaneUpgrade v1.34.4",
	"BeforeControlPlaneUpgrade v1.34.4 v1.35.4",
	"AfterControlPlaneUpgrade v1.35.4",
	"BeforeWorkersUpgrade v1.32.9 v1.35.4",
	"AfterWorkersUpgrade v1.35.4",
	"BeforeControlPlaneUpgrade v1.35.4 v1.36.3",
	"AfterControlPlaneUpgrade v1.36.3",
	"BeforeWorkersUpgrade v1.35.4 v1.36.3",
	"AfterWorkersUpgrade v1.36.3",
	"AfterClusterUpgrade v1.36.3",
}

// TestUpgradeOverSeveralMinors upgrades a Cluster over four minor releases according to the plan of an extension. Each
// hook blocks at one step: while it blocks, no later step happens, and its request says which steps remain.
func TestUpgradeOverSeveralMinors(t *testing.T) {
	w := newWorld(t)
	w.creation()
	w.block("BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade", "BeforeWorkersUpgrade",
		"AfterWorkersUpgrade", "AfterClusterUpgrade")
	w.admits("before the upgrade", "")
	w.upgrade(to)

	const all = "v1.33.5 v1.34.4 v1.35.4 v1.36.3"
	w.holds("BeforeClusterUpgrade v1.32.9 v1.36.3", all, "v1.35.4 v1.36.3", "v1.32.9 v1.32.9")
	t.Attr("rule", "LH-12")
	t.Attr("rule", "LH-16")
	w.pass("BeforeClusterUpgrade")
	w.holds("BeforeControlPlaneUpgrade v1.32.9 v1.33.5", all, "v1.35.4 v1.36.3", "v1.32.9 v1.32.9")
	t.Attr("rule", "LH-11")
	w.pass("BeforeControlPlaneUpgrade")
	w.stopped[controlPlane] = true
	w.until("the control plane has the next version in its spec", func() error {
		if now := w.versions(); now != "v1.33.5 v1.32.9" {
			return errors.New(now)
		}
		return nil
	})
	w.quiet("while the control plane rolls", "KubeadmControlPlane upgrading to version v1.33.5", len(w.calls()))
	w.stopped[controlPlane] = false
	w.holds("AfterControlPlaneUpgrade v1.33.5", "v1.34.4 v1.35.4 v1.36.3", "v1.35.4 v1.36.3", "v1.33.5 v1.32.9")
	t.Attr("rule", "LH-17")
	t.Attr("rule", "LH-18")
	t.Attr("rule", "LH-20")
	w.pass("AfterControlPlaneUpgrade")
	w.holds("BeforeWorkersUpgrade v1.32.9 v1.35.4", "v1.36.3", "v1.35.4 v1.36.3", "v1.35.4 v1.32.9")
	w.pass("BeforeWorkersUpgrade")
	w.holds("AfterWorkersUpgrade v1.35.4", "v1.36.3", "v1.36.3", "v1.35.4 v1.35.4")
	w.pass("AfterWorkersUpgrade")
	w.holds("AfterClusterUpgrade v1.36.3", "", "", "v1.36.3 v1.36.3")
	t.Attr("rule", "LH-21")
	t.Attr("rule", "LH-23")
	w.admits("while AfterClusterUpgrade blocks", `the "AfterClusterUpgrade" hook is still blocking`)
	w.pass("AfterClusterUpgrade")
	w.until("the upgrade is over", func() error {
		if pending, said := w.pending(), w.says(); pending != "" || !strings.HasPrefix(said, "True ") {
			return fmt.Errorf("the pending hooks are %q; %s", pending, said)
		}
		return nil
	})
	w.admits("after the upgrade", "")
	t.Attr("rule", "LH-22")
	if got := w.steps(); !slices.Equal(got, chain) {
		t.Errorf("the calls that let the Cluster through are\n  %s\nwant\n  %s",
			strings.Join(got, "\n  "), strings.Join(chain, "\n  "))
	}
	t.Attr("rule", "LH-28")
	t.Attr("rule", "LH-29")
	w.waitsForARollout()
}

// creation creates the Cluster, and checks that nothing else is created while its first hook blocks. Then it lets the
// hook pass, and initializes the control plane.
func (w *world) creation() {
	w.Helper()
	w.block("BeforeClusterCreate")
	w.create(from)
	w.until("BeforeClusterCreate is called again and again", w.again("BeforeClusterCreate"))
	kcp, md := w.parts()
	spec := w.cluster().Spec
	if kcp != nil || md != nil || spec.InfrastructureRef.IsDefined() || spec.ControlPlaneRef.IsDefined() {
		w.Errorf("BeforeClusterCreate blocks, but something exists: control plane %v, MachineDeployment %v, spec %+v",
			kcp, md, spec)
	}
	w.Attr("rule", "LH-06")
	w.exchanges("BeforeClusterCreate", "BeforeClusterCreate waits")
	w.Attr("rule", "LH-07")
	w.pass("BeforeClusterCreate")
	w.until("the control plane and the MachineDeployment are created", func() error {
		if now := w.versions(); now != from+" "+from {
			return errors.New(now)
		}
		return nil
	})
	w.Attr("rule", "LH-05")
	if n := len(w.calls("AfterControlPlaneInitialized")); n > 0 {
		w.Errorf("there were %d calls of AfterControlPlaneInitialized before the control plane was initialized", n)
	}
	w.remembered()
	w.Attr("rule", "LH-08")
}

// remembered initializes the control plane. The hook that follows fails, and is called again even after the reconcilers
// are restarted.
func (w *world) remembered() {
	w.Helper()
	const hook = "AfterControlPlaneInitialized"
	w.fail(hook)
	w.initialized()
	w.until(hook+" fails again and again", w.again(hook))
	if pending := w.pending(); pending != hook {
		w.Errorf("while %s fails, the pending hooks are %q", hook, pending)
	}
	w.exchanges(hook, hook+" is broken")
	w.Attr("rule", "LH-10")
	w.stop()
	w.start()
	w.until(hook+" fails again and again after a restart", w.again(hook))
	w.pass(hook)
	w.until(hook+" is no longer pending", func() error {
		if pending := w.pending(); pending != "" {
			return errors.New(pending)
		}
		return nil
	})
	if got := w.steps(); !slices.Equal(got, chain[:2]) {
		w.Errorf("the calls that let the Cluster through are %v, want those of its creation", got)
	}
	w.Attr("rule", "LH-27")
}

// again returns a check that counts the calls of a hook from now on: there must be at least two if the hook blocks,
// else at least one.
func (w *world) again(hook string) func() error {
	before := len(w.calls(hook))
	return func() error {
		calls := w.calls(hook)
		if n := len(calls) - before; n == 0 || !calls[len(calls)-1].passed && n < 2 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	}
}

// holds waits until a hook blocks at a step of the upgrade, with these steps left for control plane and workers. It
// checks that the topology stays at these versions, and that no later hook was called.
func (w *world) holds(step, controlPlaneLeft, workersLeft, versions string) {
	w.Helper()
	hook, _, _ := strings.Cut(step, " ")
	w.until(step+" is called again and again", w.again(hook))
	all := w.calls(hook)
	last := all[len(all)-1]
	if left1, left2 := last.left(); last.String() != step || left1 != controlPlaneLeft || left2 != workersLeft {
		w.Errorf("the last call is %s, with steps left for the control plane: %q, workers: %q; want %s, %q and %q",
			last, left1, left2, step, controlPlaneLeft, workersLeft)
	}
	if now := w.versions(); now != versions {
		w.Errorf("while %s blocks, the versions are %s, want %s", step, now, versions)
	}
	done := slices.Index(chain, step)
	if got := w.steps(); done < 0 || !slices.Equal(got, chain[:done]) {
		w.Errorf("%s blocks, but calls are missing before it, or follow it:\n  %s", step, strings.Join(got, "\n  "))
	}
	w.exchanges(hook, hook+" waits")
}

// exchanges checks that the last request of a hook contained the current Cluster, and that the Cluster's condition
// shows the message of the answer.
func (w *world) exchanges(hook, message string) {
	w.Helper()
	all := w.calls(hook)
	cluster := w.cluster()
	got := all[len(all)-1].Cluster
	if got.UID != cluster.UID || got.Spec.Topology.Version != cluster.Spec.Topology.Version {
		w.Errorf("the Cluster in the request of %s is not the current one: %s %+v", hook, got.UID, got.Spec)
	}
	w.until("the Cluster says "+message, func() error {
		if said := w.says(); !strings.Contains(said, message) {
			return errors.New(said)
		}
		return nil
	})
}

// quiet waits until the Cluster's condition about its topology contains the text called says. It also checks that the
// extension received no calls after the first ones, whose number is before.
func (w *world) quiet(when, says string, before int) {
	w.Helper()
	w.until("the topology is reconciled "+when, func() error {
		if said := w.says(); !strings.Contains(said, says) {
			return errors.New(said)
		}
		return nil
	})
	if calls := w.calls()[before:]; len(calls) > 0 {
		w.Errorf("%s, there were unexpected calls: %v", when, calls)
	}
}

// admits checks whether the admission of Clusters accepts a later version. If why is empty, the admission must accept
// the version; else it must refuse the version with a message that contains why.
func (w *world) admits(when, why string) {
	w.Helper()
	old := w.cluster()
	later := old.DeepCopy()
	later.Spec.Topology.Version = next
	webhook := &admission.Cluster{Client: w.admin, ClusterCacheReader: clustercache.NewFakeEmptyClusterCache()}
	_, err := webhook.ValidateUpdate(w.Context(), old, later)
	if said := fmt.Sprint(err); (err == nil) != (why == "") || !strings.Contains(said, why) {
		w.Errorf("%s, the admission of version %s says %v, want %q", when, next, err, why)
	}
}

// waitsForARollout checks that an upgrade waits for a rollout of workers that is still in progress, and begins as soon
// as the rollout is complete.
func (w *world) waitsForARollout() {
	w.Helper()
	w.stopped[workers] = true
	_, md := w.parts()
	w.rollWorker(md, "v1.35.4")
	w.until("the reconcilers see the old worker", func() error {
		machine := &clusterv1.Machine{}
		if err := w.cached.Get(w.Context(), w.key, machine); err != nil || machine.Spec.Version != "v1.35.4" {
			return fmt.Errorf("%s %w", machine.Spec.Version, err)
		}
		return nil
	})
	w.block("BeforeClusterUpgrade")
	calls, before := len(w.calls()), len(w.calls("BeforeClusterUpgrade"))
	w.upgrade(next)
	w.quiet("while workers roll", next, calls)
	if now := w.versions(); now != to+" "+to {
		w.Errorf("while workers roll, the versions have changed to %s", now)
	}
	w.stopped[workers] = false
	w.until("the upgrade begins", func() error {
		if len(w.calls("BeforeClusterUpgrade")) == before {
			return errors.New("BeforeClusterUpgrade was not called")
		}
		return nil
	})
	w.Attr("rule", "LH-15")
	w.pass("BeforeClusterUpgrade")
	w.until("the control plane and the workers have the next version in their specs", func() error {
		if now := w.versions(); now != next+" "+next {
			return errors.New(now)
		}
		return nil
	})
}
