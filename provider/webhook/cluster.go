package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-capstan-dev-v1beta2-capstancluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.capstan.dev,resources=capstanclusters,versions=v1beta2,name=capstancluster.infrastructure.capstan.dev,sideEffects=None,admissionReviewVersions=v1

// clusters checks CapstanClusters.
type clusters struct{}

var _ admission.Validator[*v1beta2.CapstanCluster] = clusters{}

func (clusters) ValidateCreate(_ context.Context, c *v1beta2.CapstanCluster) (admission.Warnings, error) {
	return nil, refuse("CapstanCluster", c.Name, controlPlaneHosts(c))
}

// controlPlaneHosts checks the selector of control plane hosts.
func controlPlaneHosts(c *v1beta2.CapstanCluster) field.ErrorList {
	return selector(c.Spec.ControlPlaneHostSelector, field.NewPath("spec", "controlPlaneHostSelector"))
}

// ValidateUpdate checks a changed selector. It also prevents a cluster that somebody else manages from becoming ours:
// neither manager would know what the other created (IC-34, IC-36).
func (clusters) ValidateUpdate(_ context.Context, was, is *v1beta2.CapstanCluster) (admission.Warnings, error) {
	var mistakes field.ErrorList
	if !equality.Semantic.DeepEqual(was.Spec.ControlPlaneHostSelector, is.Spec.ControlPlaneHostSelector) {
		mistakes = controlPlaneHosts(is)
	}
	_, before := was.Annotations[clusterv1.ManagedByAnnotation]
	_, after := is.Annotations[clusterv1.ManagedByAnnotation]
	if before && !after {
		mistakes = append(mistakes, field.Forbidden(
			field.NewPath("metadata", "annotations").Key(clusterv1.ManagedByAnnotation),
			"it can't be removed: what manages the infrastructure of this cluster continues to do so; create a new cluster "+
				"instead"))
	}
	return nil, refuse("CapstanCluster", is.Name, mistakes)
}

func (clusters) ValidateDelete(context.Context, *v1beta2.CapstanCluster) (admission.Warnings, error) {
	return nil, nil
}
