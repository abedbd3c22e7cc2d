// Package bootstrapdata carries a machine's bootstrap data to its host: into the one Secret that the host's agent may read, and out
// of it again.
//
// Secrets are read without a cache, so that the provider needs no right to list or watch them (RB-12).
package bootstrapdata

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// Keys of the Secret.
const (
	// ValueKey holds the data itself, in the Machine's Secret too.
	ValueKey = "value"
	// FormatKey holds the format of the data, in the Machine's Secret too.
	FormatKey = "format"
	// MetadataKey holds JSON of InstanceData.
	MetadataKey = "metadata"
)

// DefaultFormat is the format of data whose Secret doesn't say any.
const DefaultFormat = "cloud-config"

// ProviderIDAnnotation tells which claim the data in a host's Secret is for.
const ProviderIDAnnotation = "infrastructure.capstan.dev/provider-id"

// Data is bootstrap data as the bootstrap provider made it. It holds secrets: it goes into no message.
type Data struct {
	// Value is the data itself, never empty.
	Value []byte
	// Format of Value, for example cloud-config.
	Format []byte
}

// Read returns the bootstrap data in the Secret that Machine.spec.bootstrap.dataSecretName names (IM-48). The error is NotFound if there is
// no such Secret.
func Read(ctx context.Context, reader client.Reader, secret types.NamespacedName) (*Data, error) {
	s := &corev1.Secret{}
	if err := reader.Get(ctx, secret, s); err != nil {
		return nil, fmt.Errorf("reading the bootstrap data in Secret %s: %w", secret, err)
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

// Delivered reports whether the host's Secret holds the data of its claim.
func Delivered(ctx context.Context, reader client.Reader, host *infrav1.CapstanHost) (bool, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key(host), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, wrap(err, "reading", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: key(host).Name}})
	}
	return secret.Annotations[ProviderIDAnnotation] == host.Spec.Claim.ProviderID, nil
}

// Deliver puts the data for the host's claim into the host's Secret, in place of what an earlier claim may have left there.
func Deliver(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost, data *Data) error {
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
	if has.Annotations[ProviderIDAnnotation] == want.Annotations[ProviderIDAnnotation] && maps.EqualFunc(has.Data, want.Data, slices.Equal) {
		return nil
	}
	has.Annotations, has.Labels, has.OwnerReferences, has.Data = want.Annotations, want.Labels, want.OwnerReferences, want.Data
	return wrap(writer.Update(ctx, has), "replacing", has)
}

// Remove deletes the data of one claim from the host, if it is there. Data of another claim stays: the caller's view of the host may be
// old.
func Remove(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost, providerID string) error {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key(host), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading Secret %s: %w", key(host), err)
	}
	if secret.Annotations[ProviderIDAnnotation] != providerID {
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
			Labels:      map[string]string{clusterv1.ClusterNameLabel: host.Spec.Claim.Cluster},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "CapstanHost", Name: host.Name, UID: host.UID,
			}},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{ValueKey: data.Value, FormatKey: data.Format, MetadataKey: metadata},
	}, nil
}

func key(host *infrav1.CapstanHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name + infrav1.BootstrapSecretSuffix}
}

func wrap(err error, doing string, secret *corev1.Secret) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Secret %s: %w", doing, client.ObjectKeyFromObject(secret), err)
}
