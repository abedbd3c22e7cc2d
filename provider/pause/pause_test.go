package pause

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestWhy(t *testing.T) {
	annotated := func(value string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Annotations: map[string]string{clusterv1.PausedAnnotation: value}}
	}
	cluster := func(paused *bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: paused}}
	}
	for name, c := range map[string]struct {
		cluster *clusterv1.Cluster
		object  *metav1.ObjectMeta
		paused  bool
	}{
		"no cluster and no annotation": {object: &metav1.ObjectMeta{}},
		"the cluster says nothing":     {cluster: cluster(nil), object: &metav1.ObjectMeta{}},
		"the cluster says false":       {cluster: cluster(ptr.To(false)), object: &metav1.ObjectMeta{}},
		"the cluster says true (IM-64)": {
			cluster: cluster(ptr.To(true)), object: &metav1.ObjectMeta{}, paused: true,
		},
		"an empty annotation pauses (IM-64)":               {object: annotated(""), paused: true},
		"an annotation that says false pauses too (IM-64)": {object: annotated("false"), paused: true},
		"an annotation pauses when the cluster says nothing": {cluster: cluster(nil), object: annotated("x"),
			paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			why := Why(c.cluster, c.object)
			if (why != "") != c.paused {
				t.Errorf("paused because of %q, want paused %t", why, c.paused)
			}
			if got := Condition(why); (got.Status == metav1.ConditionTrue) != c.paused || got.Reason == "" {
				t.Errorf("condition %+v, want %t", got, c.paused)
			}
		})
	}
}
