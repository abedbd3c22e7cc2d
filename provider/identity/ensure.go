package identity

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Ensure makes objects of a host's identity that don't exist, and brings those that exist into line. It fails with a
// TakenError, and changes nothing, if one of them belongs to somebody else, or if a Secret does that the host's agent
// would be allowed to read. What is left of an earlier host of that name is deleted as the garbage collector would, and
// made anew: tokens of the earlier account end. A host without uid has not arrived yet, and no other one has its name.
func Ensure(
	ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost,
	objects []runtime.ApplyConfiguration,
) error {
	var leftovers []*metav1.PartialObjectMetadata
	look := func(kind schema.GroupVersionKind, name string) (*metav1.PartialObjectMetadata, error) {
		there, err := find(ctx, reader, host, kind, name)
		if Taken(err) != nil && leftover(host, there) {
			leftovers = append(leftovers, there)
			return nil, nil
		}
		return there, err
	}
	for _, name := range secrets(host) {
		if _, err := look(secretKind, name); err != nil {
			return err
		}
	}
	wants := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("preparing an object of the host's identity: %w", err)
		}
		wants[i] = &unstructured.Unstructured{Object: content}
		there, err := look(wants[i].GroupVersionKind(), wants[i].GetName())
		if err != nil {
			return err
		}
		if there != nil {
			wants[i].SetUID(there.UID) // so that no other object of that name is changed
			wants[i].SetResourceVersion(there.ResourceVersion)
		}
	}
	for _, object := range leftovers {
		if err := removeThis(ctx, writer, object); err != nil {
			return err
		}
	}
	for _, want := range wants {
		if err := write(ctx, writer, want); err != nil {
			return fmt.Errorf("writing %s %s: %w", want.GetKind(), want.GetName(), err)
		}
	}
	return nil
}

// write makes an object, or changes the one that it has the resource version of.
func write(ctx context.Context, writer client.Writer, want *unstructured.Unstructured) error {
	if want.GetResourceVersion() == "" {
		return writer.Create(ctx, want, FieldOwner)
	}
	return writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), FieldOwner, client.ForceOwnership)
}

// Remove deletes all objects of a host's identity and its Secrets. The account goes first, so that the agent's tokens
// are worth nothing at once. What does not belong to the host stays.
func Remove(ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost) error {
	account := infrav1.IdentityPrefix + host.Name
	errs := []error{
		remove(ctx, reader, writer, host, accountKind, account),
		remove(ctx, reader, writer, host, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), account),
		remove(ctx, reader, writer, host, rbacv1.SchemeGroupVersion.WithKind("Role"), account),
		remove(ctx, reader, writer, host, coordinationv1.SchemeGroupVersion.WithKind("Lease"), host.Name),
	}
	for _, name := range secrets(host) {
		errs = append(errs, remove(ctx, reader, writer, host, secretKind, name))
	}
	return errors.Join(errs...)
}

// RemoveSecret deletes a Secret of a host, if it is there and belongs to the host.
func RemoveSecret(
	ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost, name string,
) error {
	return remove(ctx, reader, writer, host, secretKind, name)
}

var (
	accountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	secretKind  = corev1.SchemeGroupVersion.WithKind("Secret")
)

// secrets returns the names of the Secrets that the host's agent may read.
func secrets(host *infrav1.CapstanHost) []string {
	return []string{host.Name + infrav1.BootstrapSecretSuffix, host.Name + infrav1.OfferSecretSuffix}
}

// remove deletes the object that was read, and no other of that name; what belongs to somebody else stays.
func remove(
	ctx context.Context, reader client.Reader, writer client.Writer, host *infrav1.CapstanHost,
	kind schema.GroupVersionKind, name string,
) error {
	there, err := find(ctx, reader, host, kind, name)
	switch {
	case Taken(err) != nil, err == nil && there == nil:
		return nil
	case err != nil:
		return err
	}
	return removeThis(ctx, writer, there)
}

// removeThis deletes the very object that was read.
func removeThis(ctx context.Context, writer client.Writer, object *metav1.PartialObjectMetadata) error {
	same := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := writer.Delete(ctx, object, same); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", object.Kind, object.Name, err)
	}
	return nil
}
