// Package epoch has the Secrets that fence the agents of hosts. Each epoch of a host, the time from the end of one
// claim to the end of the next, has one Secret without data. The tokens of the host's account are bound to it: the API
// server accepts them as long as that very Secret exists (docs/adr/0023).
//
// The Secret is made when its epoch begins, never before: nobody can get a token of an epoch in advance.
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

// Begin makes sure that the Secret of the host's present epoch exists. It leaves one that is there as it is: another
// one would end the tokens of the epoch.
//
// A host without uid isn't there yet: the Secret is made for its arrival from another management cluster, and becomes
// the host's when Begin is called for the host that has arrived.
//
// It fails with an identity.TakenError, and changes nothing, if somebody else has put a Secret there.
//
// It asks reader, which should not be a cache, whether the epoch is still the present one: the Secret of an earlier
// epoch, made again, would be there for good.
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

// End ends the tokens of one epoch of the host: it deletes the Secret, if it is there. The API server may remember a
// token that it has just seen for 10 s.
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

// TokenRequest asks for a token of the host's present epoch.
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
			Controller: ptr.To(true), // no other controller adopts what has one
		}}
	}
	return secret
}

// owner says whose a Secret with the name of an epoch's is.
type owner int

const (
	others   owner = iota // somebody else has put it there
	ours                  // the host's
	unowned               // made for the host's arrival
	leftover              // of a host of that name which is not there any more
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
	return fmt.Errorf("%s Secret %s, which the agent's tokens are bound to: %w", doing, secret.Name, err)
}
