package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// matching returns the handlers of a hook whose namespaceSelector matches the object's namespace (CL-18) and whose
// object selector matches the object.
func (c *Client) matching(ctx context.Context, descriptor *hook.Descriptor,
	object ctrlclient.Object) (*registry.Group, error) {
	if object == nil {
		return nil, errors.New("the object that the hook is called for is nil")
	}
	group, err := c.registry.Group(descriptor.ID.Family())
	if err != nil {
		return nil, err
	}
	if group.SelectsNamespaces() {
		of, err := c.namespaceLabels(ctx, object.GetNamespace())
		if err != nil {
			return nil, err
		}
		group = group.InNamespace(object.GetNamespace(), of)
	}
	return group.ForObject(object.GetLabels()), nil
}

// selects returns an error if the extension must not be called for an object.
func (c *Client) selects(ctx context.Context, extension *registry.Extension, object ctrlclient.Object) error {
	namespace := object.GetNamespace()
	if !extension.Namespaces.Empty() {
		of, err := c.namespaceLabels(ctx, namespace)
		if err != nil {
			return err
		}
		if namespace == "" || !extension.Namespaces.Matches(of) {
			return fmt.Errorf("the namespaceSelector of ExtensionConfig %q does not match namespace %q",
				extension.Name, namespace)
		}
	}
	if !extension.Objects.Matches(labels.Set(object.GetLabels())) {
		return fmt.Errorf("the object selector of ExtensionConfig %q (annotation %s) does not match %s", extension.Name,
			registry.ObjectSelectorAnnotation, object.GetName())
	}
	return nil
}

var namespaces = sync.Pool{New: func() any { return &metav1.PartialObjectMetadata{} }}

// namespaceLabels reads the labels of a namespace. A cluster-scoped object has no namespace, and so no labels.
func (c *Client) namespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	if name == "" {
		return nil, nil
	}
	if c.options.Reader == nil {
		return nil, errors.New("matching namespaceSelectors: the client was made without a Reader for Namespaces")
	}
	object := namespaces.Get().(*metav1.PartialObjectMetadata)
	defer namespaces.Put(object)
	*object = metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	if err := c.options.Reader.Get(ctx, ctrlclient.ObjectKey{Name: name}, object); err != nil {
		return nil, fmt.Errorf("matching namespaceSelectors: reading namespace %q: %w", name, err)
	}
	return object.GetLabels(), nil
}
