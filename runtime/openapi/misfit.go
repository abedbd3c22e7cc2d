package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Misfit is a place where a body does not match the document.
type Misfit struct {
	// Path to the value, for example "handlers[0].name"; empty for the body itself.
	Path string
	// Problem says what is wrong with the value.
	Problem string
	// Undescribed reports whether the document does not describe the value at all. OpenAPI allows such values, and
	// Cluster API ignores them.
	Undescribed bool
	// Missing reports whether the value is required and absent.
	Missing bool
}

// String returns the path and the problem.
func (m Misfit) String() string {
	if m.Path == "" {
		return "the body " + m.Problem
	}
	return m.Path + " " + m.Problem
}

// maxMisfits bounds the number of misfits reported for one body.
const maxMisfits = 64

// RequestMisfits returns where a request of a hook does not match the document (RX-03).
func (d *Document) RequestMisfits(of *hook.Descriptor, body []byte) ([]Misfit, error) {
	operation, err := d.operation(of)
	if err != nil {
		return nil, err
	}
	return d.misfits(operation.RequestBody.Content["application/json"].Schema, body)
}

// ResponseMisfits returns where a response of a hook does not match the document (RX-03).
func (d *Document) ResponseMisfits(of *hook.Descriptor, body []byte) ([]Misfit, error) {
	operation, err := d.operation(of)
	if err != nil {
		return nil, err
	}
	return d.misfits(operation.Responses["200"].Content["application/json"].Schema, body)
}

func (d *Document) operation(of *hook.Descriptor) (Operation, error) {
	path, ok := d.Paths[pathOf(of)]
	if !ok {
		return Operation{}, fmt.Errorf(
			"the document does not describe hook %s: make it from a catalog that has the hook",
			of.ID,
		)
	}
	return path.Post, nil
}

// misfits compares a body with a schema.
func (d *Document) misfits(s *Schema, body []byte) ([]Misfit, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	f := fitting{schemas: d.Components.Schemas}
	f.fit(s, value, "")
	return f.found, nil
}

// fitting walks a value together with its schema.
type fitting struct {
	schemas map[string]*Schema
	found   []Misfit
}

func (f *fitting) add(path, format string, args ...any) {
	f.put(Misfit{Path: path, Problem: fmt.Sprintf(format, args...)})
}

func (f *fitting) put(m Misfit) {
	if len(f.found) < maxMisfits {
		f.found = append(f.found, m)
	}
}

func (f *fitting) fit(s *Schema, value any, path string) {
	switch {
	case s == nil:
		return
	case s.Ref != "":
		f.fit(f.schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], value, path)
		return
	case len(s.AllOf) > 0:
		f.fit(s.AllOf[0], value, path)
		return
	case s.Type == "" && len(s.Properties) == 0: // anything, or a number or a string
		return
	}
	switch v := value.(type) {
	case map[string]any:
		f.object(s, v, path)
	case []any:
		if s.Type != "array" {
			f.add(path, "is a list, not a value of type %s", s.Type)
			return
		}
		for i, item := range v {
			f.fit(s.Items, item, fmt.Sprintf("%s[%d]", path, i))
		}
	case string:
		switch {
		case s.Type != "string":
			f.add(path, "is a string, not a value of type %s", s.Type)
		case len(s.Enum) > 0 && !slices.Contains(s.Enum, v):
			f.add(path, "is %q, not one of %s", v, strings.Join(s.Enum, ", "))
		}
	case bool:
		if s.Type != "boolean" {
			f.add(path, "is a boolean, not a value of type %s", s.Type)
		}
	case json.Number:
		if _, err := v.Int64(); s.Type != "number" && (s.Type != "integer" || err != nil) {
			f.add(path, "is the number %s, not a value of type %s", v, s.Type)
		}
	case nil:
		f.add(path, "is null, not a value of type %s", s.Type)
	}
}

// object compares the members of an object. An optional member that is null counts as absent, because Go's encoder
// writes null for a nil pointer, map or slice.
func (f *fitting) object(s *Schema, members map[string]any, path string) {
	if s.Type != "object" {
		f.add(path, "is an object, not a value of type %s", s.Type)
		return
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			f.put(Misfit{Path: below(path, name), Problem: "is missing", Missing: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		described := s.Properties[name]
		if described == nil {
			described = s.AdditionalProperties
		}
		switch value := members[name]; {
		case value == nil && !slices.Contains(s.Required, name):
		case described != nil:
			f.fit(described, value, below(path, name))
		default:
			f.put(Misfit{Path: below(path, name), Problem: "is not described", Undescribed: true})
		}
	}
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
