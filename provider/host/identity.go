package host

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/step"
)

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
	objects := identity.Objects(s.host)
	switch has {
	case wholeIdentity:
		return step.Next(), nil
	case allButAccount:
		objects = objects[:1]
	}
	for _, object := range objects {
		if err := r.Client.Apply(ctx, object, identity.FieldOwner, client.ForceOwnership); err != nil {
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
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + infrav1.OfferSecretSuffix}},
	} {
		if err := r.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err))
		}
	}
	r.noteIdentity(host, unknownIdentity)
	return errors.Join(errs...)
}
