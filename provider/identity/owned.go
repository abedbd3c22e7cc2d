package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TakenError reports that somebody else's object has a name that a host needs. That object stays unchanged.
type TakenError struct {
	// Host is the name of the host.
	Host string
	// Kind, Namespace and Name identify the object.
	Kind, Namespace, Name string
}

// Error names the object and says what to do.
func (e *TakenError) Error() string {
	return fmt.Sprintf("CapstanHost %[3]s needs the name of %[1]s %[2]s, which does not belong to it: delete or rename "+
		"that %[4]s, or register the host under another name", e.Kind, e.Name, e.Host, e.Kind)
}

// Taken returns the TakenError in err, or nil if there is none.
func Taken(err error) *TakenError {
	var taken *TakenError
	if errors.As(err, &taken) {
		return taken
	}
	return nil
}

// Owns reports whether an object belongs to exactly this host. The proof is the label with the host's name together
// with an owner reference with the host's uid: only somebody who may write the object can set them. An object with the
// label but no owner was created by a mover before the host arrived (see Objects). Secrets with bootstrap data from an
// earlier version of Capstan have ProviderIDAnnotation instead of the label.
func Owns(host *infrav1.CapstanHost, object metav1.Object) bool {
	marked := object.GetLabels()[Label] == host.Name
	if len(object.GetOwnerReferences()) == 0 {
		return marked
	}
	if _, delivered := object.GetAnnotations()[ProviderIDAnnotation]; !marked && !delivered {
		return false
	}
	for _, owner := range object.GetOwnerReferences() {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		ours := group == infrav1.GroupVersion.Group && owner.Kind == "CapstanHost" && owner.Name == host.Name
		if ours && owner.UID == host.UID {
			return true
		}
	}
	return false
}

// leftover reports whether an object belongs to an earlier host of the same name and has not been garbage-collected
// yet, for example after a move. The earlier host is known to be gone, because either the given host has its name now,
// or no host has it.
func leftover(host *infrav1.CapstanHost, object metav1.Object) bool {
	owners := object.GetOwnerReferences()
	for _, owner := range owners {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		earlier := group == infrav1.GroupVersion.Group && owner.Kind == "CapstanHost" && owner.Name == host.Name &&
			owner.UID != host.UID
		if !earlier {
			return false
		}
	}
	return len(owners) > 0 && object.GetLabels()[Label] == host.Name
}

// find returns the metadata of an object that belongs to the host, or nil if the object doesn't exist. If it belongs to
// somebody else, find returns it together with a TakenError.
func find(
	ctx context.Context, reader client.Reader, host *infrav1.CapstanHost, kind schema.GroupVersionKind, name string,
) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := reader.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	case !Owns(host, object):
		return object, &TakenError{Host: host.Name, Kind: kind.Kind, Namespace: host.Namespace, Name: name}
	}
	return object, nil
}
