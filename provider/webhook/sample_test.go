package webhook_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wanted holds values of fields whose valid values depend on a rule or on the admission webhook, not only on the
// schema.
var wanted = map[string]any{
	"matchExpressions.operator": "Exists",
	"matchExpressions.values":   nil, // none for Exists
	"conditions.status":         "True",
	"status.addresses.type":     "InternalIP",
	"spec.addresses.type":       "ExternalDNS",
	"spec.addresses.address":    "a.example.com", // for type ExternalDNS
	"template.spec.providerID":  nil,             // refused: it names one instance
	"bundles.source":            "Mirror",        // the only one that has a mirror
}

// schemaOf returns the schema of a version of a kind.
func schemaOf(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition,
	version string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("%s has no version %s", crd.Name, version)
	return nil
}

// sample returns an object in which every field of the spec is set.
func sample(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition,
	version, name string) *unstructured.Unstructured {
	t.Helper()
	spec := schemaOf(t, crd, version).Properties["spec"]
	return object(version, crd.Spec.Names.Kind, name, value("spec", &spec).(map[string]any))
}

// value returns a valid value for the field at path.
func value(path string, s *apiextensionsv1.JSONSchemaProps) any {
	for field, v := range wanted {
		if strings.HasSuffix(path, field) {
			return v
		}
	}
	switch s.Type {
	case "object":
		if s.AdditionalProperties != nil {
			return map[string]any{"a": value(path+".a", s.AdditionalProperties.Schema)}
		}
		o := map[string]any{}
		for name, property := range s.Properties {
			if v := value(path+"."+name, &property); v != nil {
				o[name] = v
			}
		}
		return o
	case "array":
		return []any{value(path, s.Items.Schema)}
	case "integer":
		if s.Minimum != nil {
			return int64(*s.Minimum)
		}
		return int64(1)
	case "boolean":
		return true
	default:
		return text(s, 1)
	}
}

// text returns a valid string, of n bytes if possible.
func text(s *apiextensionsv1.JSONSchemaProps, n int) string {
	switch {
	case s.Format == "date-time":
		return "2026-11-01T00:00:00Z"
	case len(s.Enum) > 0:
		return strings.Trim(string(s.Enum[0].Raw), `"`)
	}
	if s.MinLength != nil {
		n = max(n, int(*s.MinLength))
	}
	start := ""
	if strings.HasPrefix(s.Pattern, "^https?://") {
		start = "http://"
	}
	return start + strings.Repeat("a", n-len(start))
}
