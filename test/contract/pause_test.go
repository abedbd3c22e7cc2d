//go:build linux

package contract

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// pause sets or clears the pause of a Cluster.
func pause(on bool) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) {
		c.Spec.Paused = nil
		if on {
			c.Spec.Paused = ptr.To(true)
		}
	}
}

// TestPause pauses objects in three ways: by the Cluster, and by the annotation with and without a value. They are
// paused from the start, and later while they are being deleted.
func TestPause(t *testing.T) {
	ways := map[string]string{"cluster": "", "empty": "", "false": "false"}
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 6)
		// The Cluster "other" is not paused: its progress shows that the provider was working.
		w.provisionedCluster("other")
		set := func(way string, on bool) {
			if way == "cluster" {
				edit(w, read(w, way, &clusterv1.Cluster{}), pause(on))
				return
			}
			for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
				edit(w, w.get(kind, way), func(u *unstructured.Unstructured) {
					annotations := map[string]string{}
					if on {
						annotations[clusterv1.PausedAnnotation] = ways[way]
					}
					u.SetAnnotations(annotations)
				})
			}
		}
		for way, value := range ways {
			w.newCluster(way, func(c *clusterv1.Cluster, u *unstructured.Unstructured) {
				if way == "cluster" {
					c.Spec.Paused = ptr.To(true)
				} else {
					u.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: value})
				}
			})
			w.setProvisioned(way, true)
			o := machineOptions{cluster: way}
			if way != "cluster" {
				o.annotations = map[string]string{clusterv1.PausedAnnotation: value}
			}
			w.newMachine(way, o)
		}
		onlyPaused := func() {
			for way := range ways {
				for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
					u := w.waitCondition(kind, way, clusterv1.PausedCondition, "True")
					if types := w.conditionTypes(u); !slices.Equal(types, []string{clusterv1.PausedCondition}) || hasFinalizer(u) ||
						w.flag(u) {
						t.Errorf("%s %s has more than condition Paused: conditions %v, finalizers %v, provisioned %t",
							kind, way, types, u.GetFinalizers(), w.flag(u))
					}
				}
			}
		}
		onlyPaused()
		for way := range ways {
			w.touch("CapstanMachine", way, 1)
			w.touch("CapstanCluster", way, 1)
		}
		w.newMachine("fence", machineOptions{cluster: "other"})
		w.ready("fence")
		onlyPaused()
		if made := w.infra.made("create", "balance"); len(made) != 2 {
			t.Errorf("calls during the pause: %v, want only those for the cluster other", made)
		}
		t.Attr("rule", "CT-105")

		for way := range ways {
			set(way, false)
			w.until("cluster "+way+" is provisioned", func() bool { return w.flag(w.cluster(way)) })
			w.ready(way)
			for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
				if u := w.get(kind, way); !w.is(u, clusterv1.PausedCondition, "False") {
					t.Errorf("%s %s: Paused is %q after the pause, want False", kind, way,
						w.condition(u, clusterv1.PausedCondition))
				}
			}
		}
		w.Attr("rule", "IM-65 "+string(w.Version))
		w.Attr("rule", "IC-43 "+string(w.Version))

		// Deletion waits for the end of the pause (D-39).
		for way := range ways {
			set(way, true)
			w.waitCondition("CapstanMachine", way, clusterv1.PausedCondition, "True")
			w.waitCondition("CapstanCluster", way, clusterv1.PausedCondition, "True")
			w.delete(w.machine(way))
			w.delete(w.cluster(way))
		}
		w.delete(w.machine("fence"))
		w.gone("CapstanMachine", "fence")
		for way := range ways {
			u := w.machine(way)
			if u == nil || w.cluster(way) == nil {
				t.Fatalf("%s was deleted during the pause", way)
			}
			if !w.is(u, infrav1.ReadyCondition, "True") {
				t.Errorf("condition Ready of a paused machine was changed: %s", w.condition(u, infrav1.ReadyCondition))
			}
		}
		if made := w.infra.made("delete", "unbalance", "deregister"); len(made) != 1 {
			t.Errorf("calls during the pause: %v, want only the one for machine fence", made)
		}
		w.Attr("rule", "IM-64 "+string(w.Version))
		w.Attr("rule", "IC-42 "+string(w.Version))
		for way := range ways {
			set(way, false)
			w.gone("CapstanMachine", way)
			w.gone("CapstanCluster", way)
		}
		w.Attr("rule", "T-IM-14 "+string(w.Version))
		w.Attr("rule", "T-IC-11 "+string(w.Version))
	})
}
