// Package paging lists objects in bounded pages.
package paging

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Size is the number of objects per request.
	Size = 500
	// maxObjects is the maximum number of objects in a list.
	maxObjects = 10_000
)

// Source says what to list, and for whom.
type Source struct {
	Reader client.Reader
	// Namespace is the namespace of the objects. Empty means all.
	Namespace string
	// What names the objects in errors, for example "Machines".
	What string
	// By names the caller in errors, for example "the capacity gate".
	By string
}

// List lists objects page by page. add takes a page and returns the total so far. More than 10,000 objects are an
// error.
func List[L client.ObjectList](ctx context.Context, from Source, empty func() L, add func(L) int) error {
	for next := ""; ; {
		list := empty()
		err := from.Reader.List(ctx, list, client.InNamespace(from.Namespace), client.Limit(Size), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("listing %s: their CRD is not installed in the management cluster", from.What)
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", from.What, err)
		}
		if add(list) > maxObjects {
			return fmt.Errorf("the namespace has more than %d %s: %s counts no more than that", maxObjects, from.What, from.By)
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
