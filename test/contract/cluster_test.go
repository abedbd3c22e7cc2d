//go:build linux

package contract

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestClusterLife follows a cluster from creation to deletion, revision by revision.
func TestClusterLife(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		writes := &objectWrites{}
		w := newWorld(t, f, 7, func(w *world) { w.wrap = writes.wrap })
		seen := w.watch("CapstanCluster", "demo")
		w.infra.fail("balance", 2) // so that provisioning takes a while
		w.newCluster("demo", func(_ *clusterv1.Cluster, u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"example.com/note": "x"})
		})
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
		host, port := w.endpoint(u)
		if host != "10.231.16.1" || port != 6443 || u.GetAnnotations()["example.com/note"] != "x" {
			t.Errorf("endpoint %s port %d, annotations %v; want 10.231.16.1 port 6443, and the user's note", host, port,
				u.GetAnnotations())
		}
		w.Attr("rule", "IC-16 "+string(w.Version))
		w.Attr("rule", "IC-49 "+string(w.Version))
		if !w.flag(u) {
			t.Error("the cluster is Ready, but not provisioned")
		}
		w.Attr("rule", "IC-22 "+string(w.Version))
		w.Attr("rule", "IC-48 "+string(w.Version))
		if got := w.domains(u); !slices.Equal(got, []string{"zone-a", "zone-b", "zone-c"}) {
			t.Errorf("failure domains %v, want the zones of the inventory, each once", got)
		}
		w.Attr("rule", "IC-19 "+string(w.Version))
		w.Attr("rule", "IC-20 "+string(w.Version))
		if early := w.infra.unguardedObjects(); len(early) != 0 {
			t.Errorf("balancers were made for objects without finalizer: %v (IC-47)", early)
		}
		w.Attr("rule", "IC-47 "+string(w.Version))
		w.restart()
		w.touch("CapstanCluster", "demo", 3)
		w.newCluster("fence")
		w.until("another cluster is provisioned", func() bool { return w.flag(w.cluster("fence")) })
		if made := w.infra.made("balance"); !slices.Equal(made, []string{"balance demo", "balance fence"}) {
			t.Errorf("balancers were made: %v, want one for each cluster", made)
		}
		w.Attr("rule", "IC-01 "+string(w.Version))
		w.Attr("rule", "T-IC-02 "+string(w.Version))

		w.infra.fail("unbalance", 3)
		w.delete(w.cluster("demo"))
		w.until("an attempt to delete the balancer has failed",
			func() bool { return len(w.infra.made("failed unbalance")) > 0 })
		if u := w.cluster("demo"); len(w.infra.made("unbalance")) == 0 && (u == nil || !hasFinalizer(u)) {
			t.Error("the object must stay while its balancer can't be deleted (IC-54)")
		}
		w.Attr("rule", "IC-54 "+string(w.Version))
		w.gone("CapstanCluster", "demo")
		w.Attr("rule", "IC-44 "+string(w.Version))
		if made := w.infra.made("unbalance", "failed unbalance"); len(made) != 4 || made[3] != "unbalance demo" {
			t.Errorf("calls %v, want three that fail and one that deletes", made)
		}
		w.Attr("rule", "IC-53 "+string(w.Version))
		w.Attr("rule", "IC-55 "+string(w.Version))
		w.Attr("rule", "T-IC-13 "+string(w.Version))
		checkClusterFilm(w, seen)
		seen.checkReady(w)
		w.Attr("rule", "IC-25 "+string(w.Version))
		w.Attr("rule", "IC-28 "+string(w.Version))
		w.Attr("rule", "T-IC-07 "+string(w.Version))
		writes.checkOwn(w, "capstanclusters/demo", "controlPlaneEndpoint")
		w.Attr("rule", "IC-52 "+string(w.Version))
		w.Attr("rule", "IC-56 "+string(w.Version))
	})
}

// checkClusterFilm checks all revisions of a cluster that was created and deleted.
func checkClusterFilm(w *world, f *film) {
	w.Helper()
	provisioned := false
	f.each(w, 4, func(u *unstructured.Unstructured) {
		host, port := w.endpoint(u)
		if w.flag(u) && (host == "" || port < 1 || port > 65535 || len(w.domains(u)) == 0) {
			w.Errorf("a revision is provisioned without endpoint or domains (IC-50, IC-51): %v", u.Object)
		}
		if provisioned && !w.flag(u) {
			w.Error("the cluster was provisioned, and later not (IC-23)")
		}
		if (host != "" || w.flag(u)) && !hasFinalizer(u) && u.GetDeletionTimestamp().IsZero() {
			w.Error("a revision has an endpoint, or is provisioned, but has no finalizer (IC-47)")
		}
		provisioned = provisioned || w.flag(u)
	})
	w.Attr("rule", "IC-50 "+string(w.Version))
	w.Attr("rule", "IC-51 "+string(w.Version))
	if !provisioned {
		w.Error("no revision is provisioned")
	}
	w.Attr("rule", "T-IC-03 "+string(w.Version))
	w.Attr("rule", "T-IC-05 "+string(w.Version))
}

// TestClusterWaits creates clusters without an owner, clusters without an endpoint, and clusters that somebody else
// manages.
func TestClusterWaits(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
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
		w.Attr("rule", "IC-46 "+string(w.Version))
		if u := w.cluster("no-endpoint"); w.flag(u) {
			t.Error("a cluster without endpoint is provisioned (IC-18)")
		}
		for name, version := range managed {
			if u := w.cluster(name); u.GetResourceVersion() != version || hasFinalizer(u) {
				t.Errorf("cluster %s was changed although somebody else manages it (IC-35): %v", name, u.Object)
			}
		}
		w.Attr("rule", "IC-34 "+string(w.Version))
		w.Attr("rule", "IC-35 "+string(w.Version))
		if made := w.infra.made("balance"); !slices.Equal(made, []string{"balance complete"}) {
			t.Errorf("balancers were made: %v, want one, for cluster complete", made)
		}
		w.Attr("rule", "IC-45 "+string(w.Version))
		w.Attr("rule", "T-IC-01 "+string(w.Version))
		w.Attr("rule", "T-IC-09 "+string(w.Version))

		// The endpoint comes from the user, on the Cluster.
		edit(w, read(w, "no-endpoint", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
		})
		w.waitCondition("CapstanCluster", "no-endpoint", infrav1.ReadyCondition, "True")
		if !w.flag(w.cluster("no-endpoint")) {
			t.Error("the cluster is not provisioned although it has an endpoint")
		}
		w.Attr("rule", "IC-18 "+string(w.Version))
		w.Attr("rule", "T-IC-04 "+string(w.Version))

		// We don't delete what somebody else manages, either: the object has no finalizer, so it is simply removed.
		w.touch("CapstanCluster", "by-label", 1)
		w.delete(w.cluster("by-label"))
		w.gone("CapstanCluster", "by-label")
	})
}

// TestClusterWhoseBalancerBreaks breaks the balancer before the cluster is provisioned, and again afterwards. Both
// times, the balancer recovers.
func TestClusterWhoseBalancerBreaks(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.infra.fail("balance", 1000)
		w.newCluster("demo")
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointFailedReason)
		if w.flag(u) {
			t.Error("a cluster is provisioned without a balancer (IC-48)")
		}
		w.Attr("rule", "IC-48 "+string(w.Version))
		w.infra.fail("balance", 0)
		w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")

		w.infra.fail("balance", 1000)
		w.touch("CapstanCluster", "demo", 1)
		u = w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointFailedReason)
		if !w.flag(u) {
			t.Error("the cluster is no longer provisioned after the balancer broke (IC-23)")
		}
		w.Attr("rule", "IC-23 "+string(w.Version))
		w.Attr("rule", "T-IC-06 "+string(w.Version))
		if reason, message := w.failure(u); reason+message != "" {
			t.Errorf("a temporary error was reported as a terminal failure: %s %s (IC-31)", reason, message)
		}
		if f.Version == v1beta1 {
			w.Attr("rule", "IC-31 v1beta1")
		}
		w.Attr("rule", "T-IC-08 "+string(w.Version))
		w.infra.fail("balance", 0)
		w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "True")
	})
}

// TestClusterWhoseEndpointIsLost: a balancer that comes back at another address can't be repaired, because the machines
// use the old address.
func TestClusterWhoseEndpointIsLost(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.newCluster("demo", func(_ *clusterv1.Cluster, u *unstructured.Unstructured) {
			w.must(unstructured.SetNestedMap(u.Object, map[string]any{"host": "10.231.17.17", "port": int64(6443)}, "spec",
				"controlPlaneEndpoint"))
		})
		u := w.waitCondition("CapstanCluster", "demo", infrav1.ReadyCondition, "False "+infrav1.EndpointMovedReason)
		w.checkFailure(u, "recreate the cluster")
		w.Attr("rule", "IC-29 "+string(w.Version))
		if f.Version == v1beta1 {
			w.Attr("rule", "IC-30 v1beta1")
		}
		w.Attr("rule", "T-IC-08 "+string(w.Version))
		w.delete(u)
		w.gone("CapstanCluster", "demo")
	})
}

// TestClusterIsRebuiltAfterAMove imitates clusterctl move for a CapstanCluster: it pauses the object, removes it
// without a trace, and creates it again without status (T-IC-14).
func TestClusterIsRebuiltAfterAMove(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
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
			t.Errorf("the move caused calls of the infrastructure: %v, before %v", made, calls)
		}
		hostBefore, _ := w.endpoint(before)
		if host, _ := w.endpoint(after); host != hostBefore || !w.flag(after) ||
			!slices.Equal(w.domains(after), w.domains(before)) ||
			!slices.Equal(w.conditionTypes(after), w.conditionTypes(before)) {
			t.Errorf("after the move %v\nbefore it      %v", after.Object, before.Object)
		}
		t.Attr("rule", "CT-109")
		t.Attr("rule", "CT-110")
		w.Attr("rule", "T-IC-14 "+string(w.Version))
	})
}

// TestDomainsFollowTheInventory adds a host in a new zone and removes the only host of another zone.
func TestDomainsFollowTheInventory(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 3)
		w.provisionedCluster("demo")
		extra := w.host("host-01").DeepCopy()
		extra.ResourceVersion, extra.UID, extra.Finalizers, extra.Name = "", "", nil, "host-20"
		extra.Spec.Zone = "zone-x"
		w.create(extra)
		w.until("the cluster offers the new zone",
			func() bool { return slices.Contains(w.domains(w.cluster("demo")), "zone-x") })
		w.delete(w.host("host-03"))
		w.until("the zone without host is gone", func() bool {
			return slices.Equal(w.domains(w.cluster("demo")), []string{"zone-a", "zone-b", "zone-x"})
		})
		w.Attr("rule", "IC-19 "+string(w.Version))
	})
}
