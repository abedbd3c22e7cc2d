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

// Ensure creates the missing objects of a host's identity and updates the existing ones. If one of these objects, or a
// Secret that the host's agent could read, belongs to somebody else, Ensure changes nothing and returns a TakenError.
// Ensure deletes objects that an earlier host of the same name left behind, as the garbage collector would, and
// recreates them; tokens of the earlier account become invalid. A host without a uid has not arrived yet; Ensure
// assumes that no other host has its name.
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
			wants[i].SetUID(there.UID) // so that no other object of the same name is changed
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

// write creates an object that has no resource version. If the object has a resource version, write updates exactly
// that version.
func write(ctx context.Context, writer client.Writer, want *unstructured.Unstructured) error {
	if want.GetResourceVersion() == "" {
		return writer.Create(ctx, want, FieldOwner)
	}
	return writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), FieldOwner, client.ForceOwnership)
}

// Remove deletes all objects of a host's identity, and its Secrets. It deletes the account first, which invalidates the
// agent's tokens at once. Objects that do not belong to the host stay.
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

// RemoveSecret deletes a Secret if it exists and belongs to the host.
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

// remove deletes an object if it exists and belongs to the host.
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

// removeThis deletes exactly the object that was read, and no later one of the same name.
func removeThis(ctx context.Context, writer client.Writer, object *metav1.PartialObjectMetadata) error {
	same := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := writer.Delete(ctx, object, same); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", object.Kind, object.Name, err)
	}
	return nil
}
