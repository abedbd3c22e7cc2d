//go:build linux

package plane

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/plane/apply"
	"github.com/capstan-dev/capstan/plane/manifests"
)

// seed applies the objects in documents and returns how many it wrote. It leaves an object alone if it has applied the
// same content before, so a user's changes stay until a new version of Capstan brings different content.
func seed(ctx context.Context, c client.Client, documents [][]byte) (written int, err error) {
	objects, err := parseSeed(documents)
	if err != nil {
		return 0, err
	}
	for _, object := range objects {
		wrote, err := seedOne(ctx, c, object)
		if err != nil {
			return written, fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if wrote {
			written++
		}
	}
	return written, nil
}

// seedOne applies one object. It retries temporary errors until ctx ends, because webhooks and definitions may need a
// moment.
func seedOne(ctx context.Context, c client.Client, object *unstructured.Unstructured) (wrote bool, err error) {
	namespaced, err := c.IsObjectNamespaced(object)
	if err != nil {
		return false, err
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:16])

	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for {
		wrote, err := applySeed(ctx, c, object, hash)
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
			return wrote, err
		}
		if pauses.Wait(ctx) != nil {
			return false, errors.Join(err, context.Cause(ctx))
		}
	}
}

func applySeed(ctx context.Context, c client.Client, object *unstructured.Unstructured,
	hash string) (wrote bool, err error) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(object.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(object), have)
	switch {
	case err == nil && have.GetAnnotations()[manifests.HashAnnotation] == hash:
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	}
	desired := object.DeepCopy()
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[manifests.HashAnnotation] = hash
	desired.SetAnnotations(annotations)
	return true, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), client.FieldOwner(apply.FieldManager),
		client.ForceOwnership)
}

// parseSeed parses YAML documents.
func parseSeed(documents [][]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, text := range documents {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading the objects to start with: %w", err)
			}
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &object.Object); err != nil {
				return nil, fmt.Errorf("reading the objects to start with: %w", err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
				return nil, fmt.Errorf("reading the objects to start with: one has no apiVersion, kind or name: %.80q", document)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
