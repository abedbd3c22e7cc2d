package extension

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestRoleIsTheSameInYAML(t *testing.T) {
	data, err := os.ReadFile("../config/extension/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		found = true
		if !equality.Semantic.DeepEqual(&role, ClusterRole()) {
			t.Errorf("config/extension/rbac.yaml has %+v, extension.ClusterRole %+v", role, ClusterRole())
		}
	}
	if !found {
		t.Error("config/extension/rbac.yaml has no ClusterRole")
	}
}
