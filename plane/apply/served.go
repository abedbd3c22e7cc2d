package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/plane/manifests"
)

// definition is the part of a CustomResourceDefinition that determines where its objects are served.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name            string
			Served, Storage bool
		}
	}
}

// Served waits until the API server serves all versions of the CustomResourceDefinitions among objects, and has filled
// the caches behind watches of their stored versions. Before that, the API server rejects watches for about a second.
// Served does not wait for the caches of definitions whose objects may be stored in another version, because those need
// conversion webhooks of the process that waits here.
func (c *Client) Served(ctx context.Context, objects []manifests.Object) error {
	current, err := c.current(ctx)
	if err != nil {
		return err
	}
	versions := map[string][]string{} // maps the path of a group and version to plurals
	group, gctx := errgroup.WithContext(ctx)
	for _, object := range objects {
		if !object.IsCRD() {
			continue
		}
		var crd definition
		if err := json.Unmarshal(object.JSON, &crd); err != nil {
			return fmt.Errorf("reading the definition %s: %w", object.Name, err)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			path := "/apis/" + crd.Spec.Group + "/" + version.Name
			versions[path] = append(versions[path], crd.Spec.Names.Plural)
			if version.Storage && current[object.Name] {
				group.Go(func() error { return c.cached(gctx, path+"/"+crd.Spec.Names.Plural) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for path, plurals := range versions {
		if err := c.discovered(ctx, path, plurals); err != nil {
			return err
		}
	}
	return nil
}

// current returns the names of the definitions whose objects are all stored in the current storage version. The
// controller that migrates objects has confirmed this, and the definition has not changed since.
func (c *Client) current(ctx context.Context) (map[string]bool, error) {
	current := map[string]bool{}
	err := again(ctx, func(ctx context.Context) error {
		data, err := c.rest.Get().MaxRetries(0).AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
		if err != nil {
			return err
		}
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, crd := range list.Items {
			current[crd.Name] = crd.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] ==
				strconv.FormatInt(crd.Generation, 10)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading which definitions have objects of an older version: %w", err)
	}
	return current, nil
}

// cached waits until the API server can answer a list of the collection from its cache.
func (c *Client) cached(ctx context.Context, collection string) error {
	err := again(ctx, func(ctx context.Context) error {
		return c.rest.Get().MaxRetries(0).AbsPath(collection).Param("resourceVersion", "0").Param("limit", "1").
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", collection, err)
	}
	return nil
}

// discovered waits until discovery of the group and version at path lists all plurals.
func (c *Client) discovered(ctx context.Context, path string, plurals []string) error {
	err := again(ctx, func(ctx context.Context) error {
		data, err := c.rest.Get().MaxRetries(0).AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, plural := range plurals {
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
				return errors.New(plural + " are not served yet")
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", path, err)
	}
	return nil
}

// Allowed waits until the API server lets this client use discovery. The client's roles were only just written, and the
// authorizer may not have seen them yet.
func (c *Client) Allowed(ctx context.Context) error {
	err := again(ctx, func(ctx context.Context) error {
		return c.rest.Get().MaxRetries(0).AbsPath("/apis").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("waiting for the roles of the manager: %w", err)
	}
	return nil
}
