package provider

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestClusterWaits(t *testing.T) {
	t.Run("T-IC-01: without owner (IC-46)", func(t *testing.T) {
		w := newWorld(t, demo(infrav1.LoadBalancerLocal)...)
		edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) { c.OwnerReferences = nil })
		w.settle()
		c := w.capstanCluster("demo-infra")
		w.readyIs(c, "False WaitingForOwner")
		if len(c.Finalizers) != 0 || len(w.backends) != 0 {
			t.Errorf("finalizers %v, balancers %v", c.Finalizers, w.backends)
		}
		t.Attr("rule", "IC-46 v1beta2")
	})
	t.Run("T-IC-04: without endpoint, then with one on the Cluster (IC-18)", func(t *testing.T) {
		w := newWorld(t, demo(infrav1.LoadBalancerExternal)...)
		w.settle()
		c := w.capstanCluster("demo-infra")
		w.readyIs(c, "False WaitingForEndpoint")
		if ptr.Deref(c.Status.Initialization.Provisioned, false) {
			t.Error("provisioned without an endpoint")
		}
		t.Attr("rule", "IC-50 v1beta2")
		edit(w, get(w, "demo", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
		})
		w.settle()
		w.readyIs(w.capstanCluster("demo-infra"), "True Ready")
	})
	for _, where := range []string{"annotation", "label"} {
		t.Run("T-IC-09: managed by somebody else, "+where+" (IC-34, IC-35, IC-45, D-03)", func(t *testing.T) {
			w := newWorld(t, demo(infrav1.LoadBalancerLocal)...)
			mark := map[string]string{clusterv1.ManagedByAnnotation: ""}
			edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) {
				if where == "label" {
					c.Labels = mark
				} else {
					c.Annotations = mark
				}
			})
			before := w.capstanCluster("demo-infra").ResourceVersion
			w.settle()
			if after := w.capstanCluster("demo-infra").ResourceVersion; after != before || len(w.backends) != 0 {
				t.Errorf("resource version was %s, is %s; balancers %v", before, after, w.backends)
			}
			t.Attr("rule", "IC-35 v1beta2")
			t.Attr("rule", "IC-45 v1beta2")
		})
	}
}

// TestAClusterThatWasOurs checks that what we created for a cluster is deleted with it after somebody else took it
// over.
func TestAClusterThatWasOurs(t *testing.T) { // IC-35, IC-54, IC-56
	w := newWorld(t, demo(infrav1.LoadBalancerLocal)...)
	w.settle()
	edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.ManagedByAnnotation, "somebody")
	})
	w.settle()
	if w.capstanCluster("demo-infra"); len(w.backends) != 1 {
		t.Fatalf("balancers %v", w.backends)
	}
	w.must(w.api.Delete(t.Context(), w.capstanCluster("demo-infra")))
	w.settle()
	if w.exists("demo-infra", &infrav1.CapstanCluster{}) || len(w.backends) != 0 {
		t.Errorf("the CapstanCluster or its balancer is still there; balancers %v", w.backends)
	}
	t.Attr("rule", "IC-53 v1beta2")
	t.Attr("rule", "IC-55 v1beta2")
}

func TestClusterIsProvisioned(t *testing.T) {
	w := newWorld(t, join(hosts(4, ""), demo(infrav1.LoadBalancerLocal))...)
	w.settle()
	c := w.capstanCluster("demo-infra")
	if c.Spec.ControlPlaneEndpoint != (clusterv1.APIEndpoint{Host: "10.231.16.1", Port: 6443}) ||
		len(c.Status.FailureDomains) != 3 {
		t.Errorf("endpoint %v, failure domains %v", c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains)
	}
	t.Attr("rule", "IC-49 v1beta2")
	w.readyIs(c, "True Ready")
	first, balancer := slices.Index(w.log, "patch v1beta2.CapstanCluster"), slices.Index(w.log, "ensure balancer")
	if first < 0 || first > balancer {
		t.Errorf("the balancer was made before the finalizer was there (IC-47): %v", w.log)
	}
	t.Attr("rule", "IC-47 v1beta2")
}

func TestControlPlaneMachineLeavesTheBalancerFirst(t *testing.T) { // T-IM-15: IM-51, IM-58
	w := newWorld(t, join(hosts(2, infrav1.SupplierDock), demo(infrav1.LoadBalancerLocal), member("cp", true))...)
	w.settle()
	w.changes()
	w.must(w.api.Delete(t.Context(), w.machine("cp")))
	w.settle()
	log := w.changes()
	left, destroyed := slices.Index(log, "set backends []"),
		slices.IndexFunc(log, func(c string) bool { return strings.HasPrefix(c, "destroy ") })
	if left < 0 || destroyed < 0 || left > destroyed {
		t.Errorf("the machine must leave the balancer before its host goes: %v", log)
	}
}
