package webhook

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// TestMistakesOfThePastDoNotHoldAnObject checks that the finalizer of an object stored before a check existed can be
// removed.
func TestMistakesOfThePastDoNotHoldAnObject(t *testing.T) {
	was := &v1beta2.CapstanMachine{}
	was.Finalizers = []string{v1beta2.MachineFinalizer}
	was.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no key": "x"}}
	is := was.DeepCopy()
	is.Finalizers = nil
	if _, err := (machines{}).ValidateUpdate(t.Context(), was, is); err != nil {
		t.Errorf("it can't be deleted: %v", err)
	}
	if _, err := (machines{}).ValidateCreate(t.Context(), is); err == nil {
		t.Error("the mistake is none: this test tests nothing")
	}
}

// TestATemplateNeedsARequest checks that a change is refused without the request, which alone says whether it is a dry
// run.
func TestATemplateNeedsARequest(t *testing.T) {
	was, is := &v1beta2.CapstanMachineTemplate{}, &v1beta2.CapstanMachineTemplate{}
	is.Spec.Template.Spec.ProviderID = "p"
	if _, err := (machineTemplates{}).ValidateUpdate(t.Context(), was, is); err == nil {
		t.Error("the change is taken")
	}
}
