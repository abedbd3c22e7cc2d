package v1beta1

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

type clusterContent = content[v1beta2.CapstanClusterSpec, v1beta2.CapstanClusterStatus]

// ConvertClusterToHub makes the v1beta2 object dst from the v1beta1 object src.
func ConvertClusterToHub(_ context.Context, src *CapstanCluster, dst *v1beta2.CapstanCluster) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	to := clusterToHub(src, recall[clusterContent](dst))
	dst.Spec, dst.Status = to.Spec, to.Status
	return nil
}

// ConvertClusterFromHub makes the v1beta1 object dst from the v1beta2 object src.
func ConvertClusterFromHub(_ context.Context, src *v1beta2.CapstanCluster, dst *CapstanCluster) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = clusterSpecFromHub(src.Spec)
	reason, message := src.Status.Failure()
	dst.Status = CapstanClusterStatus{
		Ready:          deref(src.Status.Initialization.Provisioned),
		FailureReason:  pointer(reason),
		FailureMessage: pointer(message),
		Conditions:     conditionsFromHub(src.Status.Conditions, src.Status.Deprecated.V1Beta1.Conditions),
		FailureDomains: domainsFromHub(src.Status.FailureDomains),
	}
	return remember(dst, clusterContent{src.Spec, src.Status}, clusterToHub(dst, nil))
}

// clusterToHub makes the content of the v1beta2 object. old is the object's earlier content, or nil; it supplies what
// v1beta1 can't represent.
func clusterToHub(src *CapstanCluster, old *clusterContent) (to clusterContent) {
	if old == nil {
		old = &clusterContent{}
	}
	to.Spec = clusterSpecToHub(src.Spec)
	conditions := conditionsToHub(src.Status.Conditions,
		&hubConditions{old.Status.Conditions, old.Status.Deprecated.V1Beta1.Conditions})
	to.Status = v1beta2.CapstanClusterStatus{
		Initialization: v1beta2.CapstanClusterInitialization{
			Provisioned: provisioned(src.Status.Ready, old.Status.Initialization.Provisioned),
		},
		Conditions:     conditions.conditions,
		FailureDomains: domainsToHub(src.Status.FailureDomains, old.Status.FailureDomains),
	}
	kept := &to.Status.Deprecated.V1Beta1
	kept.Conditions = conditions.written
	kept.FailureReason, kept.FailureMessage = failureToHub(deref(src.Status.FailureReason),
		deref(src.Status.FailureMessage),
		to.Status.Conditions, &old.Status.Deprecated.V1Beta1)
	return to
}

func clusterSpecToHub(src CapstanClusterSpec) v1beta2.CapstanClusterSpec {
	return v1beta2.CapstanClusterSpec{
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: src.ControlPlaneEndpoint.Host, Port: src.ControlPlaneEndpoint.Port},
		LoadBalancer:         v1beta2.LoadBalancer{Type: v1beta2.LoadBalancerType(src.LoadBalancer.Type)},

		ControlPlaneHostSelector: src.ControlPlaneHostSelector,
	}
}

func clusterSpecFromHub(src v1beta2.CapstanClusterSpec) CapstanClusterSpec {
	return CapstanClusterSpec{
		ControlPlaneEndpoint: clusterv1beta1.APIEndpoint{
			Host: src.ControlPlaneEndpoint.Host, Port: src.ControlPlaneEndpoint.Port,
		},
		LoadBalancer:             LoadBalancer{Type: LoadBalancerType(src.LoadBalancer.Type)},
		ControlPlaneHostSelector: src.ControlPlaneHostSelector,
	}
}

// domainsToHub returns the map as a list sorted by name. If nobody has changed the map since it was made from the list
// old, domainsToHub returns old.
func domainsToHub(domains clusterv1beta1.FailureDomains, old []clusterv1.FailureDomain) []clusterv1.FailureDomain {
	if old != nil && equality.Semantic.DeepEqual(domainsFromHub(old), domains) {
		return old
	}
	var list []clusterv1.FailureDomain
	for name, d := range domains {
		list = append(list, clusterv1.FailureDomain{Name: name, ControlPlane: &d.ControlPlane, Attributes: d.Attributes})
	}
	slices.SortFunc(list, func(a, b clusterv1.FailureDomain) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func domainsFromHub(list []clusterv1.FailureDomain) clusterv1beta1.FailureDomains {
	if len(list) == 0 {
		return nil
	}
	domains := clusterv1beta1.FailureDomains{}
	for _, d := range list {
		domains[d.Name] = clusterv1beta1.FailureDomainSpec{ControlPlane: deref(d.ControlPlane), Attributes: d.Attributes}
	}
	return domains
}

// ConvertClusterTemplateToHub makes the v1beta2 object dst from the v1beta1 object src.
func ConvertClusterTemplateToHub(_ context.Context, src *CapstanClusterTemplate,
	dst *v1beta2.CapstanClusterTemplate) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{
		Labels: src.Spec.Template.ObjectMeta.Labels, Annotations: src.Spec.Template.ObjectMeta.Annotations,
	}
	dst.Spec.Template.Spec = clusterSpecToHub(src.Spec.Template.Spec)
	return nil
}

// ConvertClusterTemplateFromHub makes the v1beta1 object dst from the v1beta2 object src.
func ConvertClusterTemplateFromHub(_ context.Context, src *v1beta2.CapstanClusterTemplate,
	dst *CapstanClusterTemplate) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = clusterv1beta1.ObjectMeta{
		Labels: src.Spec.Template.ObjectMeta.Labels, Annotations: src.Spec.Template.ObjectMeta.Annotations,
	}
	dst.Spec.Template.Spec = clusterSpecFromHub(src.Spec.Template.Spec)
	return nil
}
