package metricsapi

import (
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestTheKubeletsTokenReadsNothingElse reads the rights of the account whose token anybody at a Node's address gets.
func TestTheKubeletsTokenReadsNothingElse(t *testing.T) {
	text := Manifest("v1.2.3")
	if strings.Contains(text, "@") || !strings.Contains(text, "image: capstan.dev/metrics-api:v1.2.3\n") {
		t.Error("the image is not that of the release")
	}
	documents, roles := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096), map[string][]any{}
	var bound []string
	for {
		var o unstructured.Unstructured
		err := documents.Decode(&o)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		if o.GetKind() == "ClusterRole" || o.GetKind() == "Role" {
			roles[o.GetName()] = rules
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if s.(map[string]any)["name"] == KubeletAccount {
				name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
				bound = append(bound, name)
			}
		}
	}
	if len(bound) != 1 || len(roles[bound[0]]) != 1 {
		t.Fatalf("the account has the roles %v", bound)
	}
	rule := roles[bound[0]][0].(map[string]any)
	for field, want := range map[string]string{"apiGroups": "", "resources": "nodes/metrics", "verbs": "get"} {
		if got := rule[field].([]any); len(got) != 1 || got[0] != want {
			t.Errorf("%s of its rule are %q, want %q alone", field, got, want)
		}
	}
}
