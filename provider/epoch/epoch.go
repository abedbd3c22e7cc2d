// Package epoch manages the Secrets that fence the agents of hosts. An epoch of a host is the time from the end of one
// claim to the end of the next. Each epoch has one Secret without data. The tokens of the host's account are bound to
// it: the API server accepts them only while exactly that Secret exists (docs/adr/0023).
//
// The Secret is created when its epoch begins, never earlier, so that nobody can get a token for an epoch in advance.
package epoch

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

// SecretType is the type of the Secret of an epoch.
const SecretType corev1.SecretType = "infrastructure.capstan.dev/epoch"

// Begin makes sure that the Secret of the host's current epoch exists. It never replaces an existing one, because that
// would invalidate the tokens of the epoch.
//
// A host without a uid has not arrived from another management cluster yet. Its Secret is created without an owner.
// Once the host has arrived, Begin makes the host the owner.
//
// If the Secret belongs to somebody else, Begin changes nothing and returns an identity.TakenError.
//
// reader should not be a cache. Begin uses it to check that the epoch is still current: a recreated Secret of an
// earlier epoch would never be deleted.
func Begin(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost) error {
	want := secretFor(host, host.Spec.Epoch)
	if host.UID != "" {
		now := &infrav1.CapstanHost{}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(host), now); err != nil {
			return fmt.Errorf("reading the host's epoch: %w", err)
		}
		if now.UID != host.UID || now.Spec.Epoch != host.Spec.Epoch {
			resource := infrav1.GroupVersion.WithResource("capstanhosts").GroupResource()
			return apierrors.NewConflict(resource, host.Name, errors.New("another epoch has begun"))
		}
	}
	has := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKeyFromObject(want), has)
	if apierrors.IsNotFound(err) {
		err = writer.Create(ctx, want.DeepCopy())
		if err == nil || !apierrors.IsAlreadyExists(err) {
			return wrap("making", want, err)
		}
		err = reader.Get(ctx, client.ObjectKeyFromObject(want), has)
	}
	if err != nil {
		return wrap("reading", want, err)
	}
	switch whose(has, host) {
	case others:
		return &identity.TakenError{Host: host.Name, Kind: "Secret", Namespace: host.Namespace, Name: has.Name}
	case leftover:
		if err := writer.Delete(ctx, has, client.Preconditions{UID: &has.UID}); client.IgnoreNotFound(err) != nil {
			return wrap("deleting", has, err)
		}
		return wrap("making", want, writer.Create(ctx, want))
	case unowned:
		if host.UID == "" {
			return nil
		}
		has.OwnerReferences = want.OwnerReferences
		return wrap("taking over", has, writer.Update(ctx, has))
	}
	return nil
}

// End invalidates the tokens of one epoch of the host by deleting its Secret, if that exists. The API server may accept
// a token that it has seen recently for another 10 s.
func End(
	ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost, epoch int64,
) error {
	secret := secretFor(host, epoch)
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(secret), secret); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return wrap("reading", secret, err)
	case whose(secret, host) == others:
		return nil // no token of ours is bound to it
	}
	err := writer.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	return wrap("deleting", secret, client.IgnoreNotFound(err))
}

// TokenRequest returns the request for a token that is bound to the host's current epoch.
func TokenRequest(host *infrav1.CapstanHost, life time.Duration) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(life / time.Second)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: infrav1.EpochSecret(host.Name, host.Spec.Epoch),
		},
	}}
}

func secretFor(host *infrav1.CapstanHost, epoch int64) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: host.Namespace, Name: infrav1.EpochSecret(host.Name, epoch),
			Labels: map[string]string{identity.Label: host.Name},
		},
		Type: SecretType,
	}
	if host.UID != "" {
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: "CapstanHost", Name: host.Name, UID: host.UID,
			Controller: ptr.To(true), // no other controller adopts an object that has one
		}}
	}
	return secret
}

// owner classifies a Secret that has the name of an epoch's Secret.
type owner int

const (
	others   owner = iota // somebody else's
	ours                  // the host's
	unowned               // created before the host's arrival
	leftover              // of an earlier host of the same name
)

func whose(secret *corev1.Secret, host *infrav1.CapstanHost) owner {
	if secret.Type != SecretType || secret.Labels[identity.Label] != host.Name {
		return others
	}
	switch refs := secret.OwnerReferences; {
	case len(refs) == 0:
		return unowned
	case len(refs) > 1 || refs[0].Kind != "CapstanHost" || refs[0].Name != host.Name:
		return others
	case refs[0].UID == host.UID:
		return ours
	}
	return leftover
}

func wrap(doing string, secret *corev1.Secret, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Secret %s, to which the agent's tokens are bound: %w", doing, secret.Name, err)
}
