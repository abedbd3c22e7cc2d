package webhook

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-capstan-dev-v1beta2-capstanmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.capstan.dev,resources=capstanmachinetemplates,versions=v1beta2,name=capstanmachinetemplate.infrastructure.capstan.dev,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-capstan-dev-v1beta2-capstanclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.capstan.dev,resources=capstanclustertemplates,versions=v1beta2,name=capstanclustertemplate.infrastructure.capstan.dev,sideEffects=None,admissionReviewVersions=v1

// Paths in templates.
var (
	templateSpec     = field.NewPath("spec", "template", "spec")
	templateMetadata = field.NewPath("spec", "template", "metadata")
)

// machineTemplates checks CapstanMachineTemplates.
type machineTemplates struct{}

var _ admission.Validator[*v1beta2.CapstanMachineTemplate] = machineTemplates{}

func (machineTemplates) ValidateCreate(_ context.Context,
	t *v1beta2.CapstanMachineTemplate) (admission.Warnings, error) {
	return nil, refuse("CapstanMachineTemplate", t.Name, append(
		selector(t.Spec.Template.Spec.HostSelector, templateSpec.Child("hostSelector")),
		metadata(t.Spec.Template.ObjectMeta)...))
}

func (machineTemplates) ValidateUpdate(ctx context.Context,
	was, is *v1beta2.CapstanMachineTemplate) (admission.Warnings, error) {
	return nil, refuse("CapstanMachineTemplate", is.Name, update(ctx, is, versions{
		specWas: was.Spec.Template.Spec, specIs: is.Spec.Template.Spec,
		metadataWas: was.Spec.Template.ObjectMeta, metadataIs: is.Spec.Template.ObjectMeta,
	}))
}

func (machineTemplates) ValidateDelete(context.Context, *v1beta2.CapstanMachineTemplate) (admission.Warnings, error) {
	return nil, nil
}

// clusterTemplates checks CapstanClusterTemplates.
type clusterTemplates struct {
	// closed refuses every CapstanClusterTemplate.
	closed bool
}

var _ admission.Validator[*v1beta2.CapstanClusterTemplate] = clusterTemplates{}

func (w clusterTemplates) ValidateCreate(_ context.Context,
	t *v1beta2.CapstanClusterTemplate) (admission.Warnings, error) {
	return nil, refuse("CapstanClusterTemplate", t.Name, slices.Concat(w.gate(),
		selector(t.Spec.Template.Spec.ControlPlaneHostSelector, templateSpec.Child("controlPlaneHostSelector")),
		metadata(t.Spec.Template.ObjectMeta)))
}

func (w clusterTemplates) ValidateUpdate(ctx context.Context,
	was, is *v1beta2.CapstanClusterTemplate) (admission.Warnings, error) {
	if !is.DeletionTimestamp.IsZero() {
		w.closed = false // a refused object can still be deleted
	}
	return nil, refuse("CapstanClusterTemplate", is.Name, append(w.gate(), update(ctx, is, versions{
		specWas: was.Spec.Template.Spec, specIs: is.Spec.Template.Spec,
		metadataWas: was.Spec.Template.ObjectMeta, metadataIs: is.Spec.Template.ObjectMeta,
	})...))
}

// gate returns an error if the feature gate forbids cluster templates.
func (w clusterTemplates) gate() field.ErrorList {
	if !w.closed {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"the feature gate ClusterTopology is off: turn it on in the managers, or use CapstanClusters without a ClusterClass")}
}

func (clusterTemplates) ValidateDelete(context.Context, *v1beta2.CapstanClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}

// versions holds the content of a template before and after a change.
type versions struct {
	specWas, specIs         any
	metadataWas, metadataIs clusterv1.ObjectMeta
}

// update checks a change of a template. The spec is immutable, because objects created from the template would not
// follow a change. Dry runs of the topology controller are allowed: it uses them to find out what a change would do
// before it creates a new template (IMT-12).
func update(ctx context.Context, is metav1.Object, v versions) field.ErrorList {
	var mistakes field.ErrorList
	if !equality.Semantic.DeepEqual(v.metadataWas, v.metadataIs) {
		mistakes = metadata(v.metadataIs)
	}
	if equality.Semantic.DeepEqual(v.specWas, v.specIs) {
		return mistakes
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return append(mistakes, field.InternalError(templateSpec, err))
	}
	if topology.IsDryRunRequest(request, is) {
		return mistakes
	}
	return append(mistakes, field.Forbidden(templateSpec,
		"it can't be changed, because objects made from it would not follow: create a new template and refer to that one"))
}

func metadata(m clusterv1.ObjectMeta) field.ErrorList { return m.Validate(templateMetadata) }
