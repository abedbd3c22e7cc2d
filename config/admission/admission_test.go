package admission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/admission"
)

// TestDocuments: each policy has a binding with the action Deny, and also denies requests for which the policy can't be
// evaluated. It matches only named resources, and its messages say what is wrong.
func TestDocuments(t *testing.T) {
	documents, err := admission.Documents()
	if err != nil {
		t.Fatal(err)
	}
	policies, bindings := map[string]bool{}, map[string]bool{}
	for _, document := range documents {
		var what metav1.TypeMeta
		if err := yaml.Unmarshal(document, &what); err != nil {
			t.Fatal(err)
		}
		switch what.Kind {
		case "ValidatingAdmissionPolicy":
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := yaml.UnmarshalStrict(document, &policy); err != nil {
				t.Fatal(err)
			}
			policies[policy.Name] = true
			checkPolicy(t, policy)
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			if err := yaml.UnmarshalStrict(document, &binding); err != nil {
				t.Fatal(err)
			}
			bindings[binding.Spec.PolicyName] = true
			deny := []admissionv1.ValidationAction{admissionv1.Deny}
			if binding.Name != binding.Spec.PolicyName || !slices.Equal(binding.Spec.ValidationActions, deny) ||
				binding.Spec.MatchResources != nil {
				t.Errorf("binding %s is %+v", binding.Name, binding.Spec)
			}
		default:
			t.Errorf("the policies contain a %s", what.Kind)
		}
	}
	for name := range policies {
		if !bindings[name] {
			t.Errorf("policy %s has no binding: it does nothing", name)
		}
	}
	if len(policies) == 0 || len(bindings) != len(policies) {
		t.Errorf("policies %v, bindings %v", policies, bindings)
	}
}

func checkPolicy(t *testing.T, policy admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	_, err := os.Stat(filepath.Join("plane", strings.TrimPrefix(policy.Name, "capstan-")+".yaml"))
	plane := err == nil
	spec := policy.Spec
	if !strings.HasPrefix(policy.Name, "capstan-") {
		t.Errorf("the name of policy %s does not begin with capstan-, so others may use it, too", policy.Name)
	}
	if spec.FailurePolicy == nil || *spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("policy %s admits requests for which it can't be evaluated", policy.Name)
	}
	for _, rule := range spec.MatchConstraints.ResourceRules {
		foreign := slices.ContainsFunc(rule.APIGroups,
			func(group string) bool { return strings.HasSuffix(group, "cluster.x-k8s.io") })
		if foreign && !plane {
			t.Errorf("policy %s is about %v: a release must not restrict these in other people's management clusters",
				policy.Name, rule.APIGroups)
		}
		everything := []string{"*", "*/*"}
		for _, resource := range slices.Concat(rule.Resources, rule.APIGroups) {
			if slices.Contains(everything, resource) {
				t.Errorf("policy %s matches %s: an error in the policy would stop requests that are not about Capstan",
					policy.Name, resource)
			}
		}
		if slices.Contains(rule.Operations, admissionv1.OperationAll) {
			t.Errorf("policy %s matches all operations", policy.Name)
		}
	}
	if len(spec.MatchConditions) == 0 {
		t.Errorf("policy %s has no match conditions: it would apply to every user", policy.Name)
	}
	for _, v := range spec.Validations {
		if v.Message == "" || v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden {
			t.Errorf("policy %s: validation %q does not say why it refuses: message %q, reason %v",
				policy.Name, v.Expression, v.Message, v.Reason)
		}
	}
}

// TestKustomizationHasAllPolicies: a release has all policies of a plane that are about Capstan's own resources.
func TestKustomizationHasAllPolicies(t *testing.T) {
	files, err := filepath.Glob("policies/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(kustomization.Resources); !slices.Equal(kustomization.Resources, files) {
		t.Errorf("kustomization.yaml lists %v, the directory has %v", kustomization.Resources, files)
	}
}
