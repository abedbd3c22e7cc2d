package release

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNobodyMayRegisterExtensions: no role in a release may write ExtensionConfigs. Only the administrators of the
// management cluster may, who vet each extension.
func TestNobodyMayRegisterExtensions(t *testing.T) {
	eachComponents(t, func(t *testing.T, _ string, _ []byte, all []*unstructured.Unstructured) {
		roles := 0
		for _, o := range all {
			if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
				continue
			}
			roles++
			for _, r := range convert[rbacv1.ClusterRole](t, o).Rules {
				about := slices.ContainsFunc(
					r.APIGroups,
					func(g string) bool { return g == "runtime.cluster.x-k8s.io" || g == "*" },
				)
				for _, verb := range r.Verbs {
					if about && !slices.Contains([]string{"get", "list", "watch"}, verb) {
						t.Errorf("%s %s gives the right to %s %v", o.GetKind(), o.GetName(), verb, r.Resources)
					}
				}
			}
		}
		if roles == 0 {
			t.Error("there are no roles: the test looks in the wrong place")
		}
	})
	t.Attr("rule", "RC-17")
}
