package webhook_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const group = "infrastructure.capstan.dev/"

// object returns an object of one of our kinds.
func object(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + version, "kind": kind}}
	u.SetNamespace(ns)
	u.SetName(name)
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

// template returns a CapstanMachineTemplate whose machines get this spec.
func template(name string, spec map[string]any) *unstructured.Unstructured {
	return object("v1beta2", "CapstanMachineTemplate", name, map[string]any{"template": map[string]any{"spec": spec}})
}

// created creates an object on the API server and deletes it at the end of the test.
func created(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	must(t, live.api.Create(t.Context(), u))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the context of the test has ended
		defer cancel()
		if err := client.IgnoreNotFound(live.api.Delete(ctx, u.DeepCopy())); err != nil {
			t.Errorf("removing %s: %v", u.GetName(), err)
		}
	})
	return u
}

// as reads an object in an API version.
func as(t *testing.T, version string, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	read := object(version, u.GetKind(), u.GetName(), nil)
	must(t, live.api.Get(t.Context(), client.ObjectKeyFromObject(u), read))
	return read
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks that an error contains all these texts.
func refused(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("the request was accepted, want an error that says %q", says)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	must(t, unstructured.SetNestedField(u.Object, value, path...))
}
