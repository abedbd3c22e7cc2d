package host

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// Label is on all objects of a host's identity; its value is the host's name.
const Label = "infrastructure.capstan.dev/host"

// fieldOwner owns the fields of the identity objects.
const fieldOwner = client.FieldOwner("capstan")

// identity makes sure that the host's agent has an account that may do what an agent does, for its own host only. A supplied host gets it
// when it is claimed: before, it has no agent. It is applied once by each process, and again when a token can't be had; after a release only
// the account is made again, for only that was deleted.
func (r *Reconciler) identity(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if s.host.Spec.Supplier != "" && (c == nil || c.Released) || s.host.Spec.Supplier == "" && !s.host.DeletionTimestamp.IsZero() {
		return step.Next(), nil
	}
	r.mu.Lock()
	has := r.identities[s.host.UID]
	r.mu.Unlock()
	objects := identityObjects(s.host)
	switch has {
	case wholeIdentity:
		return step.Next(), nil
	case allButAccount:
		objects = objects[:1]
	}
	for _, object := range objects {
		if err := r.Client.Apply(ctx, object, fieldOwner, client.ForceOwnership); err != nil {
			return step.Answer{}, err
		}
	}
	r.noteIdentity(s.host, wholeIdentity)
	return step.Next(), nil
}

// extent is how much of a host's identity this process knows to be there.
type extent int

const (
	unknownIdentity extent = iota
	allButAccount
	wholeIdentity
)

func (r *Reconciler) noteIdentity(host *infrav1.CapstanHost, has extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has == unknownIdentity {
		delete(r.identities, host.UID)
		return
	}
	r.identities[host.UID] = has
}

// identityObjects returns the account of a host's agent, which comes first, its role and binding, and the Lease of its heartbeat. The Lease is made here
// so that no agent needs the right to create any: that can't be limited to a name.
func identityObjects(host *infrav1.CapstanHost) []runtime.ApplyConfiguration {
	account := infrav1.IdentityPrefix + host.Name
	labels := map[string]string{Label: host.Name}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(infrav1.GroupVersion.String()).WithKind("CapstanHost").WithName(host.Name).WithUID(host.UID)
	rule := func(group, resource, name string, verbs ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
		return rbacv1ac.PolicyRule().WithAPIGroups(group).WithResources(resource).WithResourceNames(name).WithVerbs(verbs...)
	}
	return []runtime.ApplyConfiguration{
		corev1ac.ServiceAccount(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owner).
			WithAutomountServiceAccountToken(false),
		rbacv1ac.Role(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owner).WithRules(
			rule(infrav1.GroupVersion.Group, "capstanhosts", host.Name, "get", "list", "watch"),
			rule(infrav1.GroupVersion.Group, "capstanhosts/status", host.Name, "get", "update", "patch"),
			rule("", "secrets", host.Name+infrav1.BootstrapSecretSuffix, "get"),
			rule("", "serviceaccounts/token", account, "create"),
			rule("coordination.k8s.io", "leases", host.Name, "get", "update", "patch"),
		),
		rbacv1ac.RoleBinding(account, host.Namespace).WithLabels(labels).WithOwnerReferences(owner).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(account)).
			WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(account).WithNamespace(host.Namespace)),
		coordinationv1ac.Lease(host.Name, host.Namespace).WithLabels(labels).WithOwnerReferences(owner),
	}
}

// revoke makes the agent's tokens invalid: those of an account that was deleted stay so when it is made again. The API server may
// remember a token that it has just seen for 10 s.
func (r *Reconciler) revoke(ctx context.Context, host *infrav1.CapstanHost) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name}}
	if err := r.Client.Delete(ctx, account); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ServiceAccount %s: %w", account.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.identities[host.UID] == wholeIdentity {
		r.identities[host.UID] = allButAccount
	}
	return nil
}

// removeIdentity makes the agent's tokens invalid at once: the account goes first.
func (r *Reconciler) removeIdentity(ctx context.Context, host *infrav1.CapstanHost) error {
	account := metav1.ObjectMeta{Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name}
	var errs []error
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.RoleBinding{ObjectMeta: account},
		&rbacv1.Role{ObjectMeta: account},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + infrav1.BootstrapSecretSuffix}},
	} {
		if err := r.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err))
		}
	}
	r.noteIdentity(host, unknownIdentity)
	return errors.Join(errs...)
}
