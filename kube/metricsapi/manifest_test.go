package metricsapi

import (
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestTheKubeletsTokenReadsNothingElse checks the rights of the account whose token is sent to whoever answers at a
// Node's address.
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
			t.Errorf("%s of the account's rule are %q, want only %q", field, got, want)
		}
	}
}

// TestTheServerOutlivesItsNode checks how long the server's pod stays on a lost Node, and where it runs at first: while
// its API does not answer, namespaces can't be deleted.
func TestTheServerOutlivesItsNode(t *testing.T) {
	objects, err := objectsOf(Manifest("v1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, d, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod := d.Spec.Template.Spec
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		found := false
		for _, each := range pod.Tolerations {
			if each.Key == key && each.Effect == corev1.TaintEffectNoExecute && each.Operator == corev1.TolerationOpExists {
				found = each.TolerationSeconds != nil && *each.TolerationSeconds <= 10
			}
		}
		if !found {
			t.Errorf("the server's pod does not leave a Node with %s within 10 s: %+v", key, pod.Tolerations)
		}
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil {
		t.Fatal("the server's pod prefers no Node")
	}
	preferred := pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || preferred[0].Weight != 100 || len(preferred[0].Preference.MatchExpressions) != 1 ||
		preferred[0].Preference.MatchExpressions[0].Key != "node-role.kubernetes.io/control-plane" {
		t.Errorf("the server's pod prefers %+v, want control planes", preferred)
	}
}
