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
		t.Errorf("the finalizer of a machine with a mistake can't be removed: %v", err)
	}
	if _, err := (machines{}).ValidateCreate(t.Context(), is); err == nil {
		t.Error("a machine with the mistake is accepted, so this test checks nothing")
	}
}

// TestClusterSelectors: spec.controlPlaneHostSelector is checked when it is written; a stored mistake is tolerated.
func TestClusterSelectors(t *testing.T) {
	was := &v1beta2.CapstanCluster{}
	was.Spec.ControlPlaneHostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no key": "x"}}
	if _, err := (clusters{}).ValidateCreate(t.Context(), was); err == nil {
		t.Error("a cluster with a mistake is accepted")
	}
	is := was.DeepCopy()
	is.Finalizers = []string{v1beta2.ClusterFinalizer}
	if _, err := (clusters{}).ValidateUpdate(t.Context(), was, is); err != nil {
		t.Errorf("the finalizers of a cluster with a mistake can't be changed: %v", err)
	}
	if _, err := (clusters{}).ValidateUpdate(t.Context(), &v1beta2.CapstanCluster{}, is); err == nil {
		t.Error("a change that adds a mistake is accepted")
	}
	template := &v1beta2.CapstanClusterTemplate{}
	template.Spec.Template.Spec = was.Spec
	if _, err := (clusterTemplates{}).ValidateCreate(t.Context(), template); err == nil {
		t.Error("a template with a mistake is accepted")
	}
}

// TestATemplateNeedsARequest checks that a change is refused if the context has no admission request, because only the
// request says whether the change is a dry run.
func TestATemplateNeedsARequest(t *testing.T) {
	was, is := &v1beta2.CapstanMachineTemplate{}, &v1beta2.CapstanMachineTemplate{}
	is.Spec.Template.Spec.ProviderID = "p"
	if _, err := (machineTemplates{}).ValidateUpdate(t.Context(), was, is); err == nil {
		t.Error("a change without an admission request is accepted")
	}
}
