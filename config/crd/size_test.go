package crd

import (
	"encoding/json"
	"regexp"
	"testing"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestAReportHas32KiBAtMost adds up the largest values of all fields that a host's account may write, in the form in
// which they are stored: a character takes up to six bytes of JSON.
func TestAReportHas32KiBAtMost(t *testing.T) {
	data, err := Files.ReadFile("bases/infrastructure.capstan.dev_capstanhosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	for _, version := range definition.Spec.Versions {
		agent := version.Schema.OpenAPIV3Schema.Properties["status"].Properties["agent"]
		size := largest(t, "status.agent", agent)
		t.Logf("%s: status.agent has %d bytes at most", version.Name, size)
		if size > 32<<10 || size < 4<<10 {
			t.Errorf("%s: status.agent has %d bytes at most, want 32 KiB: make fields shorter", version.Name, size)
		}
	}
}

// largest returns how many bytes of JSON a value that fits the schema can have at most.
func largest(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) int64 {
	t.Helper()
	if s.XPreserveUnknownFields != nil || s.AdditionalProperties != nil || s.XEmbeddedResource || s.XIntOrString {
		t.Errorf("%s has no limit: anything may be in it", path)
	}
	switch s.Type {
	case "object":
		size := int64(len("{}"))
		for name, property := range s.Properties {
			size += int64(len(name)+len(`"":,`)) + largest(t, path+"."+name, property)
		}
		return size
	case "array":
		if s.MaxItems == nil {
			t.Errorf("%s has no maxItems", path)
			return 0
		}
		return *s.MaxItems*(largest(t, path+"[]", *s.Items.Schema)+1) + 2
	case "string":
		if s.MaxLength != nil {
			return *s.MaxLength*widest(t, s.Pattern) + 2
		}
		if len(s.Enum) == 0 {
			t.Errorf("%s has neither maxLength nor enum", path)
		}
		longest := int64(0)
		for _, value := range s.Enum {
			longest = max(longest, int64(len(value.Raw)))
		}
		return longest
	case "boolean":
		return int64(len("false"))
	case "integer":
		return int64(len("-9223372036854775808"))
	default:
		t.Errorf("%s is a %s, which this test doesn't know", path, s.Type)
		return 0
	}
}

// widest returns how many bytes of JSON a character can have at most. It considers only characters that, as a
// string of one character, match the pattern.
func widest(t *testing.T, pattern string) (most int64) {
	t.Helper()
	fits := regexp.MustCompile(pattern)
	for r := range rune(utf8.MaxRune + 1) {
		if r >= 0x3000 && r < utf8.MaxRune-1 || !utf8.ValidRune(r) || !fits.MatchString(string(r)) {
			continue // the skipped characters have three or four bytes, like those before and after them
		}
		data, err := json.Marshal(string(r))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, int64(len(data))-2)
	}
	return most
}
