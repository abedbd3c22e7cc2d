package client

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// matching gives the handlers of a hook whose namespaceSelector matches the object's namespace (CL-18).
func (c *Client) matching(ctx context.Context, descriptor *hook.Descriptor, object ctrlclient.Object) ([]*registry.Handler, error) {
	if object == nil {
		return nil, errors.New("the object that the hook is called for is nil")
	}
	handlers, err := c.registry.Handlers(descriptor.ID.Family())
	if err != nil {
		return nil, err
	}
	namespace := namespaceLabels{reader: c.options.Reader, name: object.GetNamespace()}
	var matching []*registry.Handler
	for _, h := range handlers {
		matches, err := namespace.match(ctx, h.Extension.Namespaces)
		if err != nil {
			return nil, fmt.Errorf("handler %q: %w", h.Name, err)
		}
		if matches {
			matching = append(matching, h)
		}
	}
	return matching, nil
}

// namespaceLabels reads a namespace at most once, and only if a selector asks for it.
type namespaceLabels struct {
	reader ctrlclient.Reader
	name   string
	labels labels.Set
	read   bool
}

func (n *namespaceLabels) match(ctx context.Context, selector labels.Selector) (bool, error) {
	if selector.Empty() {
		return true, nil
	}
	if n.name == "" {
		return false, nil // An object of the whole cluster is in no namespace, so in none that is selected.
	}
	if !n.read {
		if n.reader == nil {
			return false, errors.New("matching its namespaceSelector: the client was made without a Reader for Namespaces")
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		if err := n.reader.Get(ctx, ctrlclient.ObjectKey{Name: n.name}, object); err != nil {
			return false, fmt.Errorf("matching its namespaceSelector: reading namespace %q: %w", n.name, err)
		}
		n.labels, n.read = object.GetLabels(), true
	}
	return selector.Matches(n.labels), nil
}
