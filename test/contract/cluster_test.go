//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/contract/rule"
)

// TestClusterLife follows a cluster from creation to deletion, revision by revision.
func TestClusterLife(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "T-IC-02", "T-IC-03", "T-IC-05", "T-IC-07", "T-IC-13",
			"IC-01", "IC-16", "IC-19", "IC-20", "IC-22", "IC-25", "IC-28", "IC-44", "IC-47", "IC-48", "IC-49", "IC-50", "IC-51", "IC-52",
			"IC-53", "IC-54", "IC-55", "IC-56")
		w := newWorld(t, f, 7)
		seen := w.watch("CapstanCluster", "demo")
		w.newCluster("demo", func(_ *clusterv1.Cluster, u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"example.com/note": "x"})
		})
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
		host, port := w.endpoint(u)
		if host != "10.231.16.1" || port != 6443 || !w.flag(u) || u.GetAnnotations()["example.com/note"] != "x" {
			t.Errorf("endpoint %s port %d, provisioned %t, annotations %v", host, port, w.flag(u), u.GetAnnotations())
		}
		if got := w.domains(u); !slices.Equal(got, []string{"zone-a", "zone-b", "zone-c"}) {
			t.Errorf("failure domains %v, want the zones of the inventory, each once", got)
		}
		w.restart()
		w.touch("CapstanCluster", "demo", 3)
		w.newCluster("fence")
		w.until("another cluster is provisioned", func() bool { return w.flag(w.cluster("fence")) })
		if made := w.infra.made("balance"); !slices.Equal(made, []string{"balance demo", "balance fence"}) {
			t.Errorf("balancers were made: %v", made)
		}

		w.infra.fail("unbalance", 3)
		w.delete(w.cluster("demo"))
		w.until("deleting was tried and failed", func() bool { return len(w.infra.made("failed unbalance")) > 0 })
		if u := w.cluster("demo"); len(w.infra.made("unbalance")) == 0 && (u == nil || !hasFinalizer(u)) {
			t.Error("the object must stay while its balancer can't be deleted (IC-54)")
		}
		w.gone("CapstanCluster", "demo")
		if made := w.infra.made("unbalance", "failed unbalance"); len(made) != 4 || made[3] != "unbalance demo" {
			t.Errorf("calls %v, want three that fail and one that deletes", made)
		}
		checkClusterFilm(w, seen)
	})
}

// checkClusterFilm looks at all revisions of a cluster that lived and was deleted.
func checkClusterFilm(w *world, f *film) {
	w.Helper()
	provisioned, finalizer := false, false
	f.each(w, 4, func(u *unstructured.Unstructured) {
		host, port := w.endpoint(u)
		if w.flag(u) && (host == "" || port < 1 || port > 65535 || len(w.domains(u)) == 0) {
			w.Errorf("it said it was provisioned before it had endpoint and domains (IC-50, IC-51): %v", u.Object)
		}
		if provisioned && !w.flag(u) {
			w.Error("it was provisioned and then not (IC-23)")
		}
		if (host != "" || w.flag(u)) && !hasFinalizer(u) && u.GetDeletionTimestamp().IsZero() {
			w.Error("it has an endpoint and no finalizer (IC-47)")
		}
		ready := w.condition(u, infrav1.ReadyCondition)
		if provisioned && ready == "" {
			w.Error("it has no condition Ready (IC-28)")
		}
		if !u.GetDeletionTimestamp().IsZero() && finalizer && strings.HasPrefix(ready, "True") && w.flag(u) && len(f.revisions) > 0 && u == f.revisions[len(f.revisions)-1] {
			w.Error("it is being deleted and still Ready at the end (IC-28)")
		}
		provisioned, finalizer = provisioned || w.flag(u), finalizer || hasFinalizer(u)
	})
}

// TestClusterWaits: no owner, no endpoint, managed by somebody else.
func TestClusterWaits(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "T-IC-01", "T-IC-04", "T-IC-09", "IC-18", "IC-34", "IC-35", "IC-45", "IC-46")
		w := newWorld(t, f, 2)
		external := func(_ *clusterv1.Cluster, u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "loadBalancer")
		}
		w.newCluster("complete")
		orphan := w.newObject("CapstanCluster")
		orphan.SetNamespace(w.ns)
		orphan.SetName("orphan")
		w.create(orphan)
		w.newCluster("no-endpoint", external)
		managed := map[string]string{}
		for name, mark := range map[string]func(*unstructured.Unstructured){
			"by-annotation": func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{clusterv1.ManagedByAnnotation: "somebody"})
			},
			"by-empty-annotation": func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{clusterv1.ManagedByAnnotation: ""})
			},
			"by-label": func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{clusterv1.ManagedByAnnotation: "somebody", clusterv1.ClusterNameLabel: "by-label"})
			},
		} {
			w.newCluster(name, func(_ *clusterv1.Cluster, u *unstructured.Unstructured) { mark(u) })
			managed[name] = w.cluster(name).GetResourceVersion()
		}
		w.waitCondition("CapstanCluster", "orphan", infrav1.ReadyCondition, "False "+infrav1.WaitingForOwnerReason)
		w.waitCondition("CapstanCluster", "no-endpoint", infrav1.ReadyCondition, "False "+infrav1.WaitingForEndpointReason)
		w.until("the complete cluster is provisioned", func() bool { return w.flag(w.cluster("complete")) })
		if u := w.cluster("orphan"); hasFinalizer(u) || w.flag(u) {
			t.Errorf("a cluster without owner has finalizers %v, provisioned %t (IC-46)", u.GetFinalizers(), w.flag(u))
		}
		if u := w.cluster("no-endpoint"); w.flag(u) {
			t.Error("a cluster without endpoint is provisioned (IC-18)")
		}
		for name, version := range managed {
			if u := w.cluster(name); u.GetResourceVersion() != version || hasFinalizer(u) {
				t.Errorf("cluster %s was changed though somebody else manages it (IC-35): %v", name, u.Object)
			}
		}
		if made := w.infra.made("balance"); !slices.Equal(made, []string{"balance complete"}) {
			t.Errorf("balancers were made: %v", made)
		}

		// The endpoint comes from the user, on the Cluster.
		edit(w, read(w, "no-endpoint", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
		})
		w.waitCondition("CapstanCluster", "no-endpoint", infrav1.ReadyCondition, "True")
		if !w.flag(w.cluster("no-endpoint")) {
			t.Error("the cluster is not provisioned although it has an endpoint")
		}

		// Deletion of what somebody else manages is not ours either; without finalizer it just goes.
		w.touch("CapstanCluster", "by-label", 1)
		w.delete(w.cluster("by-label"))
		w.gone("CapstanCluster", "by-label")
	})
}

// TestClusterWhoseBalancerBreaks breaks the balancer before and after the cluster is provisioned, and then for good.
func TestClusterWhoseBalancerBreaks(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "T-IC-06", "T-IC-08", "IC-23", "IC-29", "IC-30", "IC-31", "IC-48")
		w := newWorld(t, f, 2)
		w.infra.fail("balance", 1000)
		w.newCluster("demo")
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointFailedReason)
		if w.flag(u) {
			t.Error("a cluster is provisioned without a balancer (IC-48)")
		}
		w.infra.fail("balance", 0)
		w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")

		w.infra.fail("balance", 1000)
		w.touch("CapstanCluster", "demo", 1)
		u = w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointFailedReason)
		if !w.flag(u) {
			t.Error("the flag went back when the balancer broke (IC-23)")
		}
		if reason, message := w.failure(u); reason+message != "" {
			t.Errorf("an error that passes was reported as a failure: %s %s (IC-31)", reason, message)
		}
		w.infra.fail("balance", 0)
		w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
	})
}

// TestClusterWhoseEndpointIsLost: a balancer that comes back elsewhere can't be repaired, for the machines know the old address.
func TestClusterWhoseEndpointIsLost(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "T-IC-08", "IC-29", "IC-30")
		w := newWorld(t, f, 2)
		w.newCluster("demo", func(_ *clusterv1.Cluster, u *unstructured.Unstructured) {
			w.must(unstructured.SetNestedMap(u.Object, map[string]any{"host": "10.231.17.17", "port": int64(6443)}, "spec", "controlPlaneEndpoint"))
		})
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointMovedReason)
		w.checkFailure(u, "recreate the cluster")
		w.delete(u)
		w.gone("CapstanCluster", "demo")
	})
}

// TestClusterIsRebuiltAfterAMove is T-IM-07 for clusters.
func TestClusterIsRebuiltAfterAMove(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "T-IC-14")
		w := newWorld(t, f, 3)
		w.provisionedCluster("demo")
		before := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
		calls := w.infra.made()
		edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(true))
		w.waitCondition("CapstanCluster", "demo", clusterv1.PausedCondition, "True")
		u := w.cluster("demo")
		u.SetFinalizers(nil)
		w.must(shared.admin.Update(t.Context(), u))
		w.delete(u)
		w.gone("CapstanCluster", "demo")
		back := before.DeepCopy()
		back.SetUID("")
		back.SetResourceVersion("")
		back.SetFinalizers(nil)
		unstructured.RemoveNestedField(back.Object, "status")
		w.create(back)
		w.waitCondition("CapstanCluster", "demo", clusterv1.PausedCondition, "True")
		edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(false))
		after := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
		if made := w.infra.made(); !slices.Equal(made, calls) {
			t.Errorf("the move led to calls: %v, before %v", made, calls)
		}
		hostBefore, _ := w.endpoint(before)
		if host, _ := w.endpoint(after); host != hostBefore || !w.flag(after) || !slices.Equal(w.domains(after), w.domains(before)) ||
			!slices.Equal(w.conditionTypes(after), w.conditionTypes(before)) {
			t.Errorf("after the move %v\nbefore it      %v", after.Object, before.Object)
		}
		t.Attr("rule", "CT-109")
		t.Attr("rule", "CT-110")
	})
}

// TestDomainsFollowTheInventory adds a host in a new zone and takes the only host of another away.
func TestDomainsFollowTheInventory(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "IC-19", "IC-20")
		w := newWorld(t, f, 3)
		w.provisionedCluster("demo")
		extra := w.host("host-01").DeepCopy()
		extra.ResourceVersion, extra.UID, extra.Finalizers, extra.Name = "", "", nil, "host-20"
		extra.Spec.Zone = "zone-x"
		w.create(extra)
		w.until("the new zone shows", func() bool { return slices.Contains(w.domains(w.cluster("demo")), "zone-x") })
		w.delete(w.host("host-03"))
		w.until("the zone without host is gone", func() bool {
			return slices.Equal(w.domains(w.cluster("demo")), []string{"zone-a", "zone-b", "zone-x"})
		})
	})
}
