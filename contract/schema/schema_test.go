package schema

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const example = `
type: object
properties:
  spec:
    type: object
    required: [size]
    x-kubernetes-validations: [{rule: "self.size != 'none'", message: size must not be none}]
    properties:
      size: {type: string, enum: [small, large, none]}
      count: {type: integer, default: 1}
      colour: {type: string}
      address: {type: string}
      table: {type: integer, format: int32, maximum: 4294967295}
    anyOf: [{properties: {address: {format: ipv4}}}, {properties: {address: {format: ipv6}}}]
`

func TestJudge(t *testing.T) {
	var props apiextensionsv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(example), &props); err != nil {
		t.Fatal(err)
	}
	s, err := New(&props, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ object, path, want string }{
		"an object that fits":                        {"{spec: {size: small}, metadata: {name: a}}", "", ""},
		"a field that is not in the schema":          {"{spec: {size: small, shape: round}}", "spec.shape", "drops"},
		"a value of another type":                    {"{spec: {size: small, count: many}}", "spec.count", "integer"},
		"a required field that is missing":           {"{spec: {}}", "spec.size", "required"},
		"a CEL rule that is broken":                  {"{spec: {size: none}}", "spec", "must not be none"},
		"a variable that is not set":                 {"{spec: {size: small, count: '${COUNT}'}}", "", ""},
		"null where nothing is required":             {"{spec: {size: small, colour: null}}", "", ""},
		"null where a value is required":             {"{spec: {size: null}}", "spec.size", "required"},
		"a limit that the format cannot hold":        {"{spec: {size: small, table: 5}}", "spec.table", "boundary"},
		"a value that fits none of several forms":    {"{spec: {size: small, address: a b}}", "spec", "anyOf"},
		"a variable where several forms are allowed": {"{spec: {size: small, address: '${IP}'}}", "", ""},
		"a value that is not in the list":            {"{spec: {size: huge}}", "spec.size", "supported"},
		"an item of another type for a string":       {"{spec: {size: [a]}}", "spec.size", "string"},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(test.object), &object); err != nil {
				t.Fatal(err)
			}
			got := s.Judge(object)
			if test.want == "" {
				if len(got) > 0 {
					t.Errorf("the problems are %+v, want none", got)
				}
				return
			}
			if len(got) == 0 || strings.Join(got[0].Path, ".") != test.path || !strings.Contains(got[0].Message, test.want) {
				t.Errorf("the problems are %+v, want %q at %s", got, test.want, test.path)
			}
		})
	}
}

func TestNewRefusesWhatIsNotStructural(t *testing.T) {
	if _, err := New(&apiextensionsv1.JSONSchemaProps{
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {}},
	}, false); err == nil {
		t.Error("New accepts a schema without types")
	}
}
