package plane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/config/crd"
)

// TestUpgrade starts a plane on data of an older release that knew only v1beta1. The data is the definition of a type,
// and an object of this type. The plane must start although nobody can convert the object before the plane's own
// webhooks work. Then it stores the object in the current version.
func TestUpgrade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	ctx := bounded(t)
	first := start(t, dir)
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(first.config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	name := client.ObjectKey{Name: "capstanmachines.infrastructure.capstan.dev"}
	old := older(t, "infrastructure.capstan.dev_capstanmachines.yaml")
	replace(t, ctx, c, old)
	machine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta1", "kind": "CapstanMachine",
		"metadata": map[string]any{"name": "old", "namespace": "default"},
		"spec":     map[string]any{"providerID": "capstan://default/host-1/12345678", "failureDomain": "zone-a"},
	}}
	eventually(t, "the older version's object to be created", func() error { return c.Create(ctx, machine.DeepCopy()) })
	first.stop()

	second := start(t, dir)
	eventually(t, "all objects to be stored in the current version", func() error {
		now := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, name, now); err != nil {
			return err
		}
		if v := now.Status.StoredVersions; !reflect.DeepEqual(v, []string{"v1beta2"}) {
			return fmt.Errorf("stored versions are %v", v)
		}
		return nil
	})
	for version, path := range map[string][]string{
		"v1beta1": {"spec", "failureDomain"}, "v1beta2": {"status", "failureDomain"},
	} {
		is := &unstructured.Unstructured{}
		is.SetAPIVersion("infrastructure.capstan.dev/" + version)
		is.SetKind("CapstanMachine")
		if err := c.Get(ctx, client.ObjectKeyFromObject(machine), is); err != nil {
			t.Fatal(err)
		}
		if zone, _, _ := unstructured.NestedString(is.Object, path...); zone != "zone-a" {
			t.Errorf("the object in version %s is %v", version, is.Object)
		}
	}
	second.stop()
}

// older returns one of Capstan's definitions as it was before v1beta2.
func older(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := crd.ForContract("v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	old := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(files[file], old); err != nil {
		t.Fatal(err)
	}
	for _, v := range old.Spec.Versions {
		if v.Name == "v1beta1" {
			v.Storage = true
			old.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{v}
			return old
		}
	}
	t.Fatalf("%s has no v1beta1", file)
	return nil
}

// replace installs a definition in place of the existing one.
func replace(t *testing.T, ctx context.Context, c client.Client, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := c.Delete(ctx, definition.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition to be gone", func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(definition), &apiextensionsv1.CustomResourceDefinition{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the definition still exists: %v", err)
	})
	if err := c.Create(ctx, definition); err != nil {
		t.Fatal(err)
	}
}
