// Package apply writes the plane's own objects to its API server and leaves up-to-date ones alone. Each object has an
// annotation with a hash of its content, so a plane that starts again without changes reads some lists of names and
// writes nothing.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/plane/manifests"
)

// FieldManager is the field manager of the plane's objects.
const FieldManager = "capstan-plane"

// parallel is the maximum number of concurrent requests.
const parallel = 4

// Client writes objects as they are, without decoding them. Its requests are not retried by client-go, because a
// starting API server asks clients to wait five seconds but is ready after one second.
type Client struct{ rest *rest.RESTClient }

// New returns a client for the API server in config.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	return &Client{rest: client}, nil
}

// Ensure makes sure that the API server has the objects, and returns how many it wrote. It retries temporary errors
// until ctx ends. It keeps labels and annotations that others have set.
func (c *Client) Ensure(ctx context.Context, objects []manifests.Object) (written int, err error) {
	have, err := c.hashes(ctx, objects)
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, object := range objects {
		hash, exists := have[key(object.Collection, object.Name)]
		if exists && hash == object.Hash() {
			continue
		}
		written++
		group.Go(func() error {
			err := again(ctx, func(ctx context.Context) error { return c.ensure(ctx, object, exists) })
			if err != nil {
				return fmt.Errorf("applying %s %s: %w", object.Kind, object.Name, err)
			}
			return nil
		})
	}
	return written, group.Wait()
}

func key(collection, name string) string { return collection + "/" + name }

// hashes returns the hash annotations of all existing objects in the same collections.
func (c *Client) hashes(ctx context.Context, objects []manifests.Object) (map[string]string, error) {
	have := map[string]string{}
	listed := map[string]bool{}
	for _, object := range objects {
		if listed[object.Collection] {
			continue
		}
		listed[object.Collection] = true
		err := again(ctx, func(ctx context.Context) error {
			data, err := c.rest.Get().MaxRetries(0).AbsPath(object.Collection).
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
			if err != nil {
				return err
			}
			var list metav1.PartialObjectMetadataList
			if err := json.Unmarshal(data, &list); err != nil {
				return err
			}
			for _, item := range list.Items {
				have[key(object.Collection, item.Name)] = item.Annotations[manifests.HashAnnotation]
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", object.Collection, err)
		}
	}
	return have, nil
}

// ensure writes one object.
func (c *Client) ensure(ctx context.Context, object manifests.Object, exists bool) error {
	if object.IsCRD() {
		return c.ensureCRD(ctx, object, exists)
	}
	body, err := stamp(object, nil)
	if err != nil {
		return err
	}
	path := key(object.Collection, object.Name)
	// Patch even a new object: the API server delays the creation of objects whose type is younger than two seconds.
	write := func() error {
		return c.rest.Patch(types.ApplyPatchType).MaxRetries(0).AbsPath(path).
			Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
	}
	err = write()
	if exists && object.Kind == "ClusterRoleBinding" && apierrors.IsInvalid(err) {
		// The role of a binding is immutable: if an older version bound another role, delete that binding first.
		if err := c.rest.Delete().MaxRetries(0).AbsPath(path).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the binding to another role: %w", err)
		}
		return write()
	}
	return err
}

// ensureCRD creates or overwrites a definition. Applying it would compare hundreds of kilobytes field by field.
func (c *Client) ensureCRD(ctx context.Context, object manifests.Object, exists bool) error {
	if !exists {
		body, err := stamp(object, nil)
		if err != nil {
			return err
		}
		err = c.rest.Post().MaxRetries(0).AbsPath(object.Collection).Param("fieldManager", FieldManager).
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	path := key(object.Collection, object.Name)
	data, err := c.rest.Get().MaxRetries(0).AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	var old metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	body, err := stamp(object, &old.ObjectMeta)
	if err != nil {
		return err
	}
	return c.rest.Put().MaxRetries(0).AbsPath(path).Param("fieldManager", FieldManager).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// stamp returns the object with its hash. If old is not nil, the result has the resource version of old, and keeps the
// labels and annotations that others have set.
func stamp(object manifests.Object, old *metav1.ObjectMeta) ([]byte, error) {
	var raw map[string]json.RawMessage
	var metadata map[string]any
	if err := errors.Join(json.Unmarshal(object.JSON, &raw), json.Unmarshal(raw["metadata"], &metadata)); err != nil {
		return nil, err
	}
	labels, annotations := child(metadata, "labels"), child(metadata, "annotations")
	if old != nil {
		metadata["resourceVersion"] = old.ResourceVersion
		keep(labels, old.Labels)
		keep(annotations, old.Annotations)
	} else if object.IsCRD() {
		// A new definition has no objects in an older version, so the controller that looks for them can skip it.
		annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] = "1"
	}
	annotations[manifests.HashAnnotation] = object.Hash()
	data, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	raw["metadata"] = data
	return json.Marshal(raw)
}

// child returns the map at key of parent, and creates it if missing.
func child(parent map[string]any, key string) map[string]any {
	m, _ := parent[key].(map[string]any)
	if m == nil {
		m = map[string]any{}
		parent[key] = m
	}
	return m
}

// keep copies those entries of old to m that m lacks.
func keep(m map[string]any, old map[string]string) {
	for k, v := range old {
		if _, ours := m[k]; !ours {
			m[k] = v
		}
	}
}

// again calls the function do until it succeeds, fails permanently, or ctx ends. The pauses grow only to a tenth of a
// second, because the start of the plane waits for the result.
func again(ctx context.Context, do func(context.Context) error) error {
	pauses := backoff.Backoff{First: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	for {
		err := do(ctx)
		if err == nil || !passes(err) {
			return err
		}
		if pauses.Wait(ctx) != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// passes reports whether an error may be temporary: the server is starting or busy, or somebody else wrote at the same
// time.
func passes(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	switch code := status.Status().Code; code {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusForbidden, http.StatusNotFound:
		// Forbidden and not found: roles and definitions are just being created.
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}
