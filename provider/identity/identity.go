// Package identity creates the objects that a host's agent needs: its account, with a role limited to its own host, and
// the Lease for its heartbeat. It removes them with the host. It also decides which objects belong to the host; it
// never changes or deletes others, whatever their names are.
package identity

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Label is on all objects of a host's identity; its value is the host's name.
const Label = "infrastructure.capstan.dev/host"

// ProviderIDAnnotation is on a Secret with bootstrap data for a host. Its value is the provider id of the claim that
// the data is for.
const ProviderIDAnnotation = "infrastructure.capstan.dev/provider-id"

// FieldOwner owns the fields of these objects, whoever applies them.
const FieldOwner = client.FieldOwner("capstan")

// Objects returns, in this order, the account of a host's agent, its role, the role binding, and the Lease for its
// heartbeat. The Lease is created here so that agents need no right to create Leases, which RBAC can't limit to a name.
// The host owns and controls the objects. For a host without a uid, which has not arrived yet, Objects returns them
// without an owner; the controller takes them over when the host arrives.
func Objects(host *infrav1.CapstanHost) []runtime.ApplyConfiguration {
	account := infrav1.IdentityPrefix + host.Name
	labels := map[string]string{Label: host.Name}
	var owners []*metav1ac.OwnerReferenceApplyConfiguration
	if host.UID != "" {
		owners = append(owners, metav1ac.OwnerReference().
			WithAPIVersion(infrav1.GroupVersion.String()).WithKind("CapstanHost").WithName(host.Name).WithUID(host.UID).
			WithController(true)) // no other controller adopts an object that has one
	}
	rule := func(group, resource, name string, verbs ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
		return rbacv1ac.PolicyRule().WithAPIGroups(group).WithResources(resource).WithResourceNames(name).WithVerbs(verbs...)
	}
	return []runtime.ApplyConfiguration{
		corev1ac.ServiceAccount(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owners...).
			WithAutomountServiceAccountToken(false),
		rbacv1ac.Role(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owners...).WithRules(
			rule(infrav1.GroupVersion.Group, "capstanhosts", host.Name, "get", "list", "watch"),
			rule(infrav1.GroupVersion.Group, "capstanhosts/status", host.Name, "get", "update", "patch"),
			rule("", "secrets", host.Name+infrav1.BootstrapSecretSuffix, "get"),
			rule("", "secrets", host.Name+infrav1.OfferSecretSuffix, "get"),
			rule("", "serviceaccounts/token", account, "create"),
			rule("coordination.k8s.io", "leases", host.Name, "get", "update", "patch"),
		),
		rbacv1ac.RoleBinding(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owners...).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(account)).
			WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(account).WithNamespace(host.Namespace)),
		coordinationv1ac.Lease(host.Name, host.Namespace).WithLabels(labels).WithOwnerReferences(owners...),
	}
}
