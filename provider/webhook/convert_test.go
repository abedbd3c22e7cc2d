package webhook_test

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1beta1"
)

// machineStatus is a status that the controller may write.
func machineStatus() map[string]any {
	return map[string]any{
		"initialization": map[string]any{"provisioned": true},
		"addresses":      []any{map[string]any{"type": "InternalIP", "address": "10.231.1.1"}},
		"failureDomain":  "zone-a",
		"host":           "host-1",
		"conditions": []any{
			map[string]any{
				"type": "Ready", "status": "False", "reason": "HostOffline", "message": "no heartbeat",
				"lastTransitionTime": "2026-11-01T00:00:00Z", "observedGeneration": int64(2),
			},
			map[string]any{
				"type": "HostClaimed", "status": "True", "reason": "HostClaimed", "message": "",
				"lastTransitionTime": "2026-11-01T00:00:00Z",
			},
		},
	}
}

// content returns spec and status of an object.
func content(u *unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": u.Object["spec"], "status": u.Object["status"]}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("%s:\n%s", what, diff.Diff(want, got))
	}
}

// TestReadAndWriteThroughV1Beta1 checks that reading an object as v1beta1 and writing it back changes nothing.
func TestReadAndWriteThroughV1Beta1(t *testing.T) {
	m := created(t, object("v1beta2", "CapstanMachine", "through", map[string]any{
		"providerID":   "capstan://default/host-1/12345678",
		"hostSelector": map[string]any{"matchLabels": map[string]any{"rack": "a"}},
		"hostRequirements": map[string]any{
			"architecture": "amd64", "minProcessors": int64(2), "minMemoryMiB": int64(3), "minDiskGiB": int64(4),
		},
	}))
	m.Object["status"] = machineStatus()
	must(t, live.api.Status().Update(t.Context(), m))

	old := as(t, "v1beta1", m)
	if ready, _, _ := unstructured.NestedBool(old.Object, "status", "ready"); !ready {
		t.Errorf("IM-19: status is %v", old.Object["status"])
	}
	if domain, _, _ := unstructured.NestedString(old.Object, "spec", "failureDomain"); domain != "zone-a" {
		t.Errorf("IM-55: spec is %v", old.Object["spec"])
	}
	if old.GetAnnotations()[v1beta1.DataAnnotation] == "" {
		t.Error("the annotation with what v1beta1 can't express is missing")
	}
	conditions, _, _ := unstructured.NestedSlice(old.Object, "status", "conditions")
	if c := conditions[0].(map[string]any); c["severity"] != "Warning" || c["observedGeneration"] != nil {
		t.Errorf("IM-29: the first condition is %v", c)
	}

	must(t, live.api.Update(t.Context(), old))
	must(t, live.api.Status().Update(t.Context(), old))
	after := as(t, "v1beta2", m)
	same(t, "read and written back", content(m), content(after))
	same(t, "annotations", map[string]string(nil), after.GetAnnotations())

	// A change made through v1beta1 takes effect.
	old = as(t, "v1beta1", m)
	set(t, old, "host-2", "status", "host")
	must(t, live.api.Status().Update(t.Context(), old))
	want := machineStatus()
	want["host"] = "host-2"
	same(t, "changed through v1beta1", want, as(t, "v1beta2", m).Object["status"])
}

// TestTwoManagersInTwoVersions checks that fields applied in one version stay when another manager applies in the
// other.
func TestTwoManagersInTwoVersions(t *testing.T) {
	applied := func(version, manager string, u *unstructured.Unstructured) {
		t.Helper()
		must(t, live.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager),
			client.ForceOwnership))
	}
	u := object("v1beta1", "CapstanCluster", "two",
		map[string]any{"controlPlaneEndpoint": map[string]any{"host": "10.0.0.1", "port": int64(6443)}})
	created(t, object("v1beta2", "CapstanCluster", "two", nil))
	applied("v1beta1", "one", u)
	labelled := object("v1beta2", "CapstanCluster", "two", nil)
	labelled.SetLabels(map[string]string{"by": "two"})
	applied("v1beta2", "two", labelled)
	applied("v1beta1", "one", object("v1beta1", "CapstanCluster", "two", maps.Clone(u.Object["spec"].(map[string]any))))

	got := as(t, "v1beta2", u)
	host, _, _ := unstructured.NestedString(got.Object, "spec", "controlPlaneEndpoint", "host")
	if host != "10.0.0.1" || got.GetLabels()["by"] != "two" {
		t.Errorf("got %v with labels %v", got.Object["spec"], got.GetLabels())
	}
}

// TestEveryKindIsConverted creates one object of each kind in each version and reads it in the other version.
func TestEveryKindIsConverted(t *testing.T) {
	for _, crd := range live.definitions {
		if len(crd.Spec.Versions) == 1 {
			continue
		}
		for _, way := range [][2]string{{"v1beta1", "v1beta2"}, {"v1beta2", "v1beta1"}} {
			kind := crd.Spec.Names.Kind
			t.Run(kind+" made in "+way[0], func(t *testing.T) {
				made := created(t, sample(t, crd, way[0], "convert"))
				other := as(t, way[1], made)
				again := as(t, way[0], made)
				same(t, "spec", made.Object["spec"], again.Object["spec"])
				if other.Object["spec"] == nil {
					t.Errorf("in %s the object is %v", way[1], other.Object)
				}
			})
		}
	}
}
