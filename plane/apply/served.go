package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/plane/manifests"
)

// Served waits until the API server serves all versions of the CustomResourceDefinitions among objects.
func (c *Client) Served(ctx context.Context, objects []manifests.Object) error {
	want := map[string][]string{} // group/version to plurals
	for _, object := range objects {
		if !object.IsCRD() {
			continue
		}
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Plural string }
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
		if err := json.Unmarshal(object.JSON, &crd); err != nil {
			return fmt.Errorf("reading the definition %s: %w", object.Name, err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Served {
				path := "/apis/" + crd.Spec.Group + "/" + version.Name
				want[path] = append(want[path], crd.Spec.Names.Plural)
			}
		}
	}
	for path, plurals := range want {
		err := again(ctx, func(ctx context.Context) error {
			data, err := c.rest.Get().AbsPath(path).DoRaw(ctx)
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
	}
	return nil
}
