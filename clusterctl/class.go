package clusterctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/templates"
)

const (
	// planeNamespace is the namespace of an embedded plane's own ClusterClass.
	planeNamespace = "default"
	// planeOwner is the field owner of what an embedded plane applies.
	planeOwner = client.FieldOwner("capstan-plane")
)

// ErrClassGone reports that clusters have moved, but the plane they left could not restore its own ClusterClass.
var ErrClassGone = errors.New("the clusters have moved, but the plane has not got its own ClusterClass back")

// Move moves clusters, and the ClusterClasses of the namespace with them. It then restores an embedded plane's own
// ClusterClass, without which the plane cannot create clusters.
func (c *Client) Move(ctx context.Context, o upstream.MoveOptions) error {
	if err := c.Client.Move(ctx, o); err != nil {
		return err
	}
	if !c.Embedded() || o.Namespace != planeNamespace || o.DryRun || o.ToDirectory != "" || o.FromDirectory != "" {
		return nil
	}
	api, err := connect(c.Kubeconfig)
	if err == nil {
		err = restoreClass(ctx, api)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClassGone, err)
	}
	return nil
}

// restoreClass creates the missing objects of a plane's own ClusterClass.
func restoreClass(ctx context.Context, c client.Client) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(templates.Local)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(text, &object.Object)
		}
		if err != nil {
			return fmt.Errorf("reading the class: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(planeNamespace)
		// What the mover deleted may linger for a moment, and webhooks may be busy.
		patience := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 9}
		if err := retry.OnError(patience, func(err error) bool { return ctx.Err() == nil && !apierrors.IsInvalid(err) },
			func() error { return restore(ctx, c, object) }); err != nil {
			return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

func restore(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(object.GroupVersionKind())
	switch err := c.Get(ctx, client.ObjectKeyFromObject(object), have); {
	case err == nil && have.GetDeletionTimestamp() != nil:
		return errors.New("the previous one is still being deleted")
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return err
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), planeOwner, client.ForceOwnership)
}
