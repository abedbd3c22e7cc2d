package webhook_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is one value of one field, at its limit or beyond.
type attempt struct {
	// name describes the value, for example "longer than 63".
	name string
	// value replaces the field's value; nil removes the field.
	value any
	// good is true if the value must be accepted.
	good bool
}

// unlimited lists fields without a limit of their own, each with the reason.
var unlimited = map[string]string{
	"hostSelector": "Kubernetes' own type: the webhook checks its keys and values, the API server the size of the object",
	"controlPlaneHostSelector": "Kubernetes' own type, " +
		"as hostSelector",
	"labels": "Cluster API's own type: the webhook checks its keys and values, the API server the size of the " +
		"object",
	"annotations": "Cluster API's own type: the webhook checks keys and size",
	"attributes":  "Cluster API's own type, written by the controller only",
}

// TestLimits sets every field of every version of every kind to values at its limits, which must be accepted, and to
// values beyond them, which must be refused with the name of the field. The values come from the schema, so no new
// field is left out.
func TestLimits(t *testing.T) {
	tried := 0
	for _, crd := range live.definitions {
		for _, v := range crd.Spec.Versions {
			t.Run(crd.Spec.Names.Kind+" "+v.Name, func(t *testing.T) {
				tried += limits(t, crd, v.Name)
			})
		}
	}
	t.Logf("%d values were tried", tried)
	if tried < 300 {
		t.Errorf("only %d values were tried: the walk through the schemas misses something", tried)
	}
}

// limits tries the values for one version of one kind, without storing them.
func limits(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version string) (tried int) {
	schema := schemaOf(t, crd, version)
	spec, status := schema.Properties["spec"], schema.Properties["status"]
	base := sample(t, crd, version, "limits")
	walk([]string{"spec"}, &spec, func(path []string, s *apiextensionsv1.JSONSchemaProps, attempts []attempt) {
		for _, a := range attempts {
			tried++
			t.Run(strings.Join(path, ".")+" "+a.name, func(t *testing.T) {
				u := base.DeepCopy()
				change(t, u, path, a.value)
				judge(t, path, a, live.api.Create(t.Context(), u, client.DryRunAll))
			})
		}
	})
	if status.Type == "" {
		return tried
	}
	stored := created(t, base.DeepCopy())
	stored.Object["status"] = value("status", &status)
	walk([]string{"status"}, &status, func(path []string, s *apiextensionsv1.JSONSchemaProps, attempts []attempt) {
		for _, a := range attempts {
			tried++
			t.Run(strings.Join(path, ".")+" "+a.name, func(t *testing.T) {
				u := stored.DeepCopy()
				change(t, u, path, a.value)
				judge(t, path, a, live.api.Status().Update(t.Context(), u, client.DryRunAll))
			})
		}
	})
	return tried
}

func judge(t *testing.T, path []string, a attempt, err error) {
	t.Helper()
	field := path[len(path)-1]
	switch {
	case a.good && err != nil:
		t.Errorf("the value is refused: %v", err)
	case !a.good && err == nil:
		t.Error("the value is accepted")
	case !a.good && !strings.Contains(err.Error(), field):
		t.Errorf("the answer does not name the field: %v", err)
	}
}

// walk visits all fields below path.
func walk(path []string, s *apiextensionsv1.JSONSchemaProps,
	visit func([]string, *apiextensionsv1.JSONSchemaProps, []attempt)) {
	if _, imported := unlimited[path[len(path)-1]]; imported {
		return
	}
	if v, ruled := wanted[strings.Join(path[max(0, len(path)-3):], ".")]; ruled && v == nil {
		return // no value is valid
	}
	if attempts := attempts(path, s); len(attempts) > 0 {
		visit(slices.Clone(path), s, attempts)
	}
	if s.Type == "array" {
		s = s.Items.Schema
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(append(path, name), &property, visit)
		if slices.Contains(s.Required, name) {
			// A missing field with a default is filled in before validation.
			visit(append(slices.Clone(path), name), &property, []attempt{{name: "missing", good: property.Default != nil}})
		}
	}
}

// attempts returns the values to try in a field.
func attempts(path []string, s *apiextensionsv1.JSONSchemaProps) (all []attempt) {
	add := func(good bool, value any, name string, args ...any) {
		all = append(all, attempt{fmt.Sprintf(name, args...), value, good})
	}
	switch s.Type {
	case "string":
		add(false, int64(5), "a number")
		if len(s.Enum) > 0 {
			add(false, "nonsense", "not one of the allowed values")
			for _, e := range s.Enum {
				if v := ruled(path); v != nil && v != strings.Trim(string(e.Raw), `"`) {
					continue // valid with another value of another field
				}
				add(true, strings.Trim(string(e.Raw), `"`), "%s", e.Raw)
			}
			return all
		}
		if s.Format != "" {
			add(false, "nonsense", "not a %s", s.Format)
			return all
		}
		if _, fixed := value(strings.Join(path, "."), s).(string); s.MaxLength != nil && fixed {
			if ruled(path) == nil {
				add(true, text(s, int(*s.MaxLength)), "of %d characters", *s.MaxLength)
			}
			add(false, text(s, int(*s.MaxLength)+1), "longer than %d", *s.MaxLength)
		}
		if s.MinLength != nil && *s.MinLength > 0 {
			add(false, text(&apiextensionsv1.JSONSchemaProps{}, int(*s.MinLength)-1), "shorter than %d", *s.MinLength)
		}
	case "integer":
		add(false, "five", "a word")
		if s.Minimum != nil {
			add(true, int64(*s.Minimum), "%d", int64(*s.Minimum))
			add(false, int64(*s.Minimum)-1, "less than %d", int64(*s.Minimum))
		}
		if s.Maximum != nil {
			add(true, int64(*s.Maximum), "%d", int64(*s.Maximum))
			add(false, int64(*s.Maximum)+1, "more than %d", int64(*s.Maximum))
		}
		if s.Format == "int32" && s.Maximum == nil {
			add(false, int64(1)<<31, "too large for 32 bits")
		}
	case "boolean":
		add(false, "yes", "a word")
	case "object":
		add(false, "text", "text")
		if s.MinProperties != nil && *s.MinProperties > 0 && len(s.Properties) > 0 {
			filled := slices.ContainsFunc(slices.Collect(maps.Values(s.Properties)),
				func(p apiextensionsv1.JSONSchemaProps) bool { return p.Default != nil })
			add(filled, map[string]any{}, "empty")
		}
	case "array":
		add(false, "text", "text")
		if s.MaxItems != nil {
			add(true, items(path, s, int(*s.MaxItems)), "with %d items", *s.MaxItems)
			add(false, items(path, s, int(*s.MaxItems)+1), "with more than %d items", *s.MaxItems)
		}
		if s.MinItems != nil && *s.MinItems > 0 {
			add(false, []any{}, "with less than %d items", *s.MinItems)
		}
		if s.XListType != nil && *s.XListType == "map" {
			item := value(strings.Join(path, "."), s.Items.Schema)
			add(false, []any{item, runtime.DeepCopyJSONValue(item)}, "with two items of the same %s",
				strings.Join(s.XListMapKeys, ","))
		}
	}
	return all
}

// ruled returns the value that a rule requires for the field at path, or nil if the schema suffices.
func ruled(path []string) any {
	for n := 2; n <= 3; n++ {
		if v := wanted[strings.Join(path[max(0, len(path)-n):], ".")]; v != nil {
			return v
		}
	}
	return nil
}

// items returns n items with different keys.
func items(path []string, s *apiextensionsv1.JSONSchemaProps, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = value(strings.Join(path, "."), s.Items.Schema)
		if o, ok := all[i].(map[string]any); ok {
			for _, key := range s.XListMapKeys {
				if len(s.Items.Schema.Properties[key].Enum) == 0 {
					o[key] = fmt.Sprintf("k%d", i)
				}
			}
		}
		if word, ok := all[i].(string); ok && s.XListType != nil && *s.XListType == "set" {
			number := fmt.Sprintf("%03d", i)
			all[i] = word[:len(word)-len(number)] + number
		}
	}
	return all
}

// change sets the field at path, in the first item of each list on the path.
func change(t *testing.T, u *unstructured.Unstructured, path []string, value any) {
	t.Helper()
	at := u.Object
	for _, name := range path[:len(path)-1] {
		next := at[name]
		if list, ok := next.([]any); ok {
			next = list[0]
		}
		var ok bool
		if at, ok = next.(map[string]any); !ok {
			t.Fatalf("the sample has no %s of %v", name, path)
		}
	}
	if value == nil {
		delete(at, path[len(path)-1])
		return
	}
	at[path[len(path)-1]] = value
}

// TestEveryFieldHasALimit checks that every string and list is bounded: otherwise anybody could fill etcd.
func TestEveryFieldHasALimit(t *testing.T) {
	for _, crd := range live.definitions {
		for _, v := range crd.Spec.Versions {
			for _, part := range []string{"spec", "status"} {
				schema := v.Schema.OpenAPIV3Schema.Properties[part]
				bounded(t, crd.Spec.Names.Kind+" "+v.Name, []string{part}, &schema)
			}
		}
	}
}

func bounded(t *testing.T, kind string, path []string, s *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	field := strings.Join(path, ".")
	if _, ok := unlimited[path[len(path)-1]]; ok {
		return
	}
	switch {
	case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "" &&
		wanted[strings.Join(path[max(0, len(path)-2):], ".")] == nil:
		t.Errorf("%s: %s has no maximal length", kind, field)
	case s.Type == "array":
		if s.MaxItems == nil {
			t.Errorf("%s: %s has no maximal number of items", kind, field)
		}
		s = s.Items.Schema
		if s.Type == "string" && s.MaxLength == nil {
			t.Errorf("%s: the items of %s have no maximal length", kind, field)
		}
	}
	for name, property := range s.Properties {
		bounded(t, kind, append(slices.Clone(path), name), &property)
	}
}
