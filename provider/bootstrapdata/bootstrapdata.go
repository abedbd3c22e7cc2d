// Package bootstrapdata copies a machine's bootstrap data to a Secret that the agent of its host may read, and deletes
// this Secret after use.
//
// It reads Secrets without a cache, so that the provider needs no right to list or watch them (contract rule RB-12).
package bootstrapdata

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/identity"
)

// Keys of the Secret.
const (
	// ValueKey holds the data itself, in the Machine's Secret too.
	ValueKey = "value"
	// FormatKey holds the format of the data, in the Machine's Secret too.
	FormatKey = "format"
	// MetadataKey holds InstanceData as JSON.
	MetadataKey = "metadata"
)

// DefaultFormat is the format of data whose Secret doesn't name one.
const DefaultFormat = "cloud-config"

// ProviderIDAnnotation names the claim that the data in a host's Secret is for.
const ProviderIDAnnotation = identity.ProviderIDAnnotation

// Data is bootstrap data as the bootstrap provider created it. It contains secrets: never print it in a message.
type Data struct {
	// Value is the data itself, never empty.
	Value []byte
	// Format of Value, for example cloud-config.
	Format []byte
}

// Read returns the bootstrap data of a Machine from the Secret named in spec.bootstrap.dataSecretName (contract rule
// IM-48). The error is NotFound if the Secret doesn't exist, and a RefusedError if nothing proves that the data is for
// this Machine.
func Read(ctx context.Context, reader client.Reader, mapper meta.RESTMapper, m *clusterv1.Machine) (*Data, error) {
	secret := types.NamespacedName{Namespace: m.Namespace, Name: *m.Spec.Bootstrap.DataSecretName}
	if err := refuseName(secret.Name); err != nil {
		return nil, err
	}
	s := &corev1.Secret{}
	if err := reader.Get(ctx, secret, s); err != nil {
		return nil, fmt.Errorf("reading the bootstrap data in Secret %s: %w", secret, err)
	}
	if err := checkOrigin(ctx, reader, mapper, m, s); err != nil {
		return nil, err
	}
	if len(s.Data[ValueKey]) == 0 {
		return nil, fmt.Errorf("secret %s has no bootstrap data under key %q: check the bootstrap provider", secret, ValueKey)
	}
	data := &Data{Value: s.Data[ValueKey], Format: s.Data[FormatKey]}
	if len(data.Format) == 0 {
		data.Format = []byte(DefaultFormat)
	}
	return data, nil
}

// Delivered reports whether the host's Secret holds the data for its claim. The error is an identity.TakenError if a
// Secret of that name exists but isn't the host's.
func Delivered(ctx context.Context, reader client.Reader, host *infrav1.CapstanHost) (bool, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key(host), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, wrap(err, "reading", &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: key(host).Name},
		})
	}
	if !identity.Owns(host, secret) {
		return false, taken(host)
	}
	return secret.Annotations[ProviderIDAnnotation] == host.Spec.Claim.ProviderID, nil
}

// Deliver writes the data for the host's claim to the host's Secret, replacing data from an earlier claim. If a Secret
// of that name exists but isn't the host's, Deliver leaves it unchanged and returns an identity.TakenError.
func Deliver(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost,
	data *Data) error {
	want, err := secretFor(host, data)
	if err != nil {
		return err
	}
	if err := writer.Create(ctx, want); err == nil || !apierrors.IsAlreadyExists(err) {
		return wrap(err, "writing", want)
	}
	has := &corev1.Secret{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(want), has); err != nil {
		return wrap(err, "reading", want)
	}
	if !identity.Owns(host, has) {
		return taken(host)
	}
	if has.Annotations[ProviderIDAnnotation] == want.Annotations[ProviderIDAnnotation] &&
		maps.EqualFunc(has.Data, want.Data, slices.Equal) {
		return nil
	}
	has.Annotations, has.Labels, has.OwnerReferences, has.Data =
		want.Annotations, want.Labels, want.OwnerReferences, want.Data
	return wrap(writer.Update(ctx, has), "replacing", has)
}

// Remove deletes the host's Secret if it holds the data of the claim with this provider id. Data of another claim
// stays, because the caller's view of the host may be stale. A Secret that isn't the host's stays too.
func Remove(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost,
	providerID string) error {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key(host), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading Secret %s: %w", key(host), err)
	}
	if secret.Annotations[ProviderIDAnnotation] != providerID || !identity.Owns(host, secret) {
		return nil
	}
	err := writer.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	return wrap(client.IgnoreNotFound(err), "deleting", secret)
}

func secretFor(host *infrav1.CapstanHost, data *Data) (*corev1.Secret, error) {
	metadata, err := json.Marshal(claim.InstanceData(host))
	if err != nil {
		return nil, fmt.Errorf("writing the instance data of host %s as JSON: %w", host.Name, err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   host.Namespace,
			Name:        key(host).Name,
			Annotations: map[string]string{ProviderIDAnnotation: host.Spec.Claim.ProviderID},
			Labels: map[string]string{
				clusterv1.ClusterNameLabel: host.Spec.Claim.Cluster, identity.Label: host.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "CapstanHost", Name: host.Name, UID: host.UID,
				Controller: ptr.To(true), // no bootstrap provider adopts an object that has a controller
			}},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{ValueKey: data.Value, FormatKey: data.Format, MetadataKey: metadata},
	}, nil
}

func key(host *infrav1.CapstanHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name + infrav1.BootstrapSecretSuffix}
}

func taken(host *infrav1.CapstanHost) error {
	return &identity.TakenError{Host: host.Name, Kind: "Secret", Namespace: host.Namespace, Name: key(host).Name}
}

func wrap(err error, doing string, secret *corev1.Secret) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Secret %s: %w", doing, client.ObjectKeyFromObject(secret), err)
}
