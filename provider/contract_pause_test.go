package provider

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// The annotation pauses an object even before it has an owner, and before its owner is in the cache (IM-64, IC-42).
func TestPauseComesBeforeTheOwner(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"no owner yet": nil,
		"owners that do not exist here": {
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "later", UID: "1"},
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "later", UID: "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := oneWorker(t)
			for _, o := range []client.Object{w.machine("w1"), w.capstanCluster("demo-infra")} {
				edit(w, o, func(o client.Object) {
					o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
					o.SetOwnerReferences(owners)
				})
			}
			w.settle()
			for _, o := range []conditions.Getter{w.machine("w1"), w.capstanCluster("demo-infra")} {
				if !conditions.IsTrue(o, clusterv1.PausedCondition) || len(o.GetConditions()) != 1 {
					t.Errorf("%T has more than condition Paused: %+v", o, o.GetConditions())
				}
			}
		})
	}
}

// The Cluster of a new object may be paused and not in the cache yet, so the object must not report a missing owner.
func TestAYoungClusterWithoutOwnerIsSilent(t *testing.T) { // IC-42, IC-46
	w := newWorld(t, demo(infrav1.LoadBalancerLocal)...)
	edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) {
		c.OwnerReferences[0].Name = "later"
		c.CreationTimestamp = metav1.NewTime(w.clock.Now())
	})
	c := w.capstanCluster("demo-infra")
	w.clock.SetTime(c.CreationTimestamp.Add(time.Second))
	result, err := w.clusters.Reconcile(t.Context(), requestOf(c))
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("result %+v, error %v, want another pass later", result, err)
	}
	if c := w.capstanCluster("demo-infra"); len(c.Status.Conditions) != 0 {
		t.Errorf("conditions %+v, want none", c.Status.Conditions)
	}
	w.settle()
	w.readyIs(w.capstanCluster("demo-infra"), "False WaitingForOwner")
}
