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
	// Size is how many objects one request asks for.
	Size = 500
	// maxObjects bounds each list.
	maxObjects = 10_000
)

// Source says what is listed, and who asks.
type Source struct {
	Reader client.Reader
	// Namespace of the objects. Empty: all.
	Namespace string
	// What names the objects in errors, for example "Machines".
	What string
	// By names who lists them in errors, for example "the capacity gate".
	By string
}

// List lists objects page by page. add takes a page and returns how many objects there are so far: more than 10,000 are
// an error.
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
