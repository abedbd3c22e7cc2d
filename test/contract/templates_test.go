//go:build linux

package contract

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTheOnlyFieldOfATemplateIsTakenOut does what the topology controller does when a class no longer sets the only
// field of a template: a dry run of server-side apply shows what the template would become. Server-side apply leaves
// spec.template.spec null, but it must be an object: the default in the schema replaces null by an object.
func TestTheOnlyFieldOfATemplateIsTakenOut(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 0)
		w.stop()
		for kind, spec := range map[string]map[string]any{
			"CapstanMachineTemplate": {"hostSelector": map[string]any{"matchLabels": map[string]any{"disk": "ssd"}}},
			"CapstanClusterTemplate": {"loadBalancer": map[string]any{"type": "Local"}},
		} {
			apply := func(template map[string]any, options ...client.ApplyOption) *unstructured.Unstructured {
				u := f.newObject(kind)
				u.SetNamespace(w.ns)
				u.SetName("x")
				u.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
				u.Object["spec"] = map[string]any{"template": template}
				options = append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)
				if err := shared.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), options...); err != nil {
					t.Errorf("%s %v: %v", kind, template, err)
				}
				return u
			}
			metadata := map[string]any{"labels": map[string]any{"example.com/a": "b"}}
			apply(map[string]any{"metadata": metadata, "spec": spec})
			for _, without := range []map[string]any{
				{"metadata": metadata, "spec": map[string]any{}}, {"metadata": metadata}, {"spec": map[string]any{}},
			} {
				got := apply(without, client.DryRunAll)
				left, is, err := unstructured.NestedMap(got.Object, "spec", "template", "spec")
				if _, has := left["hostSelector"]; !is || err != nil || has {
					t.Errorf("%s %v became %v", kind, without, got.Object["spec"])
				}
				kept, _, _ := unstructured.NestedString(left, "loadBalancer", "type")
				if kind == "CapstanClusterTemplate" && kept != "External" {
					t.Errorf("%s %v became %v, want the default type of the load balancer", kind, without, left)
				}
			}
		}
	})
}
