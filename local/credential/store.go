package credential

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/internal/hint"
)

// kept is how long List still shows credentials that no longer work.
const kept = 24 * time.Hour

// Create makes a credential and returns its text, which is stored nowhere. It also removes credentials that stopped
// working more than a day ago.
func Create(ctx context.Context, c client.Client, l Limits, now time.Time) (text string, made *Credential, err error) {
	if err := l.Check(now); err != nil {
		return "", nil, err
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: l.Namespace}, namespace); apierrors.IsNotFound(err) {
		return "", nil, hint.Errorf(
			"create it: capstan kubectl create namespace "+l.Namespace,
			"there is no namespace %s",
			l.Namespace,
		)
	} else if err != nil {
		return "", nil, fmt.Errorf("looking up namespace %s: %w", l.Namespace, err)
	}
	if err := sweep(ctx, c, now); err != nil {
		return "", nil, err
	}
	text, id := enrolment.NewCredential()
	_, hash, err := enrolment.ParseCredential(text)
	if err != nil {
		return "", nil, err
	}
	l.Expires = l.Expires.UTC().Truncate(time.Second)
	secret, err := encode(id, hash, l)
	if err != nil {
		return "", nil, err
	}
	if err := c.Create(ctx, secret); err != nil {
		return "", nil, fmt.Errorf("storing the credential: %w", err)
	}
	return text, &Credential{ID: id, Limits: l, Created: secret.CreationTimestamp.Time, State: Valid}, nil
}

// List returns the credentials for hosts of a namespace, newest first; an empty namespace means all.
func List(ctx context.Context, c client.Reader, namespace string, now time.Time) ([]Credential, error) {
	secrets := &corev1.SecretList{}
	if err := c.List(ctx, secrets, client.InNamespace(Namespace), client.HasLabels{Label}); err != nil {
		return nil, fmt.Errorf("listing credentials: %w", err)
	}
	list := []Credential{}
	for i := range secrets.Items {
		one, ok := decode(&secrets.Items[i])
		if !ok || namespace != "" && one.Namespace != namespace {
			continue
		}
		one.State = one.StateAt(now)
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Credential) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// Revoke revokes a credential. Hosts that enrolled with it stay.
func Revoke(ctx context.Context, c client.Client, id string) error {
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: secretPrefix + id}, secret)
	if _, ours := decode(secret); apierrors.IsNotFound(err) || err == nil && !ours {
		return hint.Errorf("see: capstan host token list", "there is no enrolment credential %q", id)
	}
	if err == nil {
		err = client.IgnoreNotFound(c.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
	}
	if err != nil {
		return fmt.Errorf("revoking credential %s: %w", id, err)
	}
	return nil
}

// sweep removes credentials that stopped working long ago.
func sweep(ctx context.Context, c client.Client, now time.Time) error {
	all, err := List(ctx, c, "", now)
	if err != nil {
		return err
	}
	for _, one := range all {
		if now.Sub(one.Expires) < kept {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: secretPrefix + one.ID}}
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the expired credential %s: %w", one.ID, err)
		}
	}
	return nil
}

// ErrUnknown is returned for a malformed, unknown, wrong or revoked credential. It does not say which, so a guess
// reveals nothing.
var ErrUnknown = errors.New("the credential is not valid: it is wrong, or was revoked; create another one with " +
	"capstan host token create")

// Find returns the credential for a text. The reader must not be a cache, because a cache may not yet show
// that the credential was revoked or used a moment ago.
func Find(ctx context.Context, reader client.Reader, text string) (*Credential, error) {
	id, hash, err := enrolment.ParseCredential(text)
	if err != nil {
		return nil, ErrUnknown
	}
	secret := &corev1.Secret{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: secretPrefix + id}, secret)
	if apierrors.IsNotFound(err) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a credential: %w", err)
	}
	c, ok := decode(secret)
	if !ok || subtle.ConstantTimeCompare([]byte(c.hash), []byte(hash)) != 1 || secret.DeletionTimestamp != nil {
		return nil, ErrUnknown
	}
	return c, nil
}

// Spend records a use of a credential that Find returned. It fails with a conflict if the credential was used since,
// and with ErrUnknown if it was revoked, so a credential never exceeds its uses. A host that has already used the
// credential spends nothing.
func (c *Credential) Spend(ctx context.Context, writer client.Writer, use Use) error {
	if c.UsedBy(use.Host, use.Key) {
		return nil
	}
	uses, err := json.Marshal(append(slices.Clone(c.Used), use))
	if err != nil {
		return fmt.Errorf("encoding the uses of a credential: %w", err)
	}
	secret := c.secret.DeepCopy()
	secret.Data[usesKey] = uses
	err = writer.Update(ctx, secret) // updates the version that was read, or conflicts
	if apierrors.IsNotFound(err) {
		return ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("recording the use of credential %s: %w", c.ID, err)
	}
	return nil
}
