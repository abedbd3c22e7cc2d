package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-capstan-dev-v1beta2-capstanmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.capstan.dev,resources=capstanmachines,versions=v1beta2,name=capstanmachine.infrastructure.capstan.dev,sideEffects=None,admissionReviewVersions=v1

// machines checks CapstanMachines.
type machines struct{}

var _ admission.Validator[*v1beta2.CapstanMachine] = machines{}

func (machines) ValidateCreate(_ context.Context, m *v1beta2.CapstanMachine) (admission.Warnings, error) {
	return nil, refuse("CapstanMachine", m.Name, selector(m.Spec.HostSelector, field.NewPath("spec", "hostSelector")))
}

// ValidateUpdate checks only what changes: it must still be possible to remove the finalizer of an invalid object.
func (machines) ValidateUpdate(ctx context.Context, was, is *v1beta2.CapstanMachine) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(was.Spec.HostSelector, is.Spec.HostSelector) {
		return nil, nil
	}
	return machines{}.ValidateCreate(ctx, is)
}

func (machines) ValidateDelete(context.Context, *v1beta2.CapstanMachine) (admission.Warnings, error) {
	return nil, nil
}

// selector validates a host selector.
func selector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}
