// Package schema describes hooks and the types of their requests and responses as data, so that they can be documented
// and compared.
//
// A [Document] is made in two ways: [Reflect] takes the Go types of a catalog that is linked into the process,
// [Source.Read] reads Go source, so that releases which can't be linked into one process can be compared. Source also
// knows what reflection can't see: comments, and the markers for required fields and enumerations.
//
// Both follow what encoding/json does with a type, not its Go structure: embedded structs are flattened, and types with
// an own encoding are what they say they are.
package schema

import (
	"fmt"
	"maps"
	"slices"
)

// Document describes hooks.
type Document struct {
	// Hooks by "group/version/Name", see hook.ID.
	Hooks map[string]*Hook `json:"hooks"`
	// Types are the named structs, by import path, a dot, and name.
	Types map[string]*Type `json:"types"`
}

// Hook is one version of a hook.
type Hook struct {
	// Request is the name of the request's type.
	Request string `json:"request"`
	// Response is the name of the response's type.
	Response string `json:"response"`
	// Blocking tells whether responses carry retryAfterSeconds.
	Blocking bool `json:"blocking,omitempty"`
	// Description of the hook.
	Description string `json:"description,omitempty"`

	// Deprecated is the release that announced the end of this version, empty if none has.
	Deprecated string `json:"deprecated,omitempty"`
	// DeprecatedOn is the day of that release, as 2006-01-02, empty if it is not known.
	DeprecatedOn string `json:"deprecatedOn,omitempty"`
}

// Kind is what a value is in JSON.
type Kind string

// The kinds.
const (
	Object  Kind = "object"
	Map     Kind = "map" // an object with any names
	Array   Kind = "array"
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	Any     Kind = "any"
)

// Type describes a value.
type Type struct {
	// Kind of the value; empty if Ref is set.
	Kind Kind `json:"kind,omitempty"`
	// Ref is the name of a type in Document.Types.
	Ref string `json:"ref,omitempty"`
	// Format says more about strings and numbers, in OpenAPI's words: "byte", "date-time", "int32".
	Format string `json:"format,omitempty"`
	// Fields of an Object, by their names in JSON.
	Fields map[string]*Field `json:"fields,omitempty"`
	// Items is what an Array or a Map holds.
	Items *Type `json:"items,omitempty"`
	// Enum lists the values that a String can have; empty for any.
	Enum []string `json:"enum,omitempty"`
	// Description of the type.
	Description string `json:"description,omitempty"`
}

// Field is one field of an object.
type Field struct {
	Type
	// Required tells whether the field must be there.
	Required bool `json:"required,omitempty"`
}

// New gives an empty document.
func New() *Document { return &Document{Hooks: map[string]*Hook{}, Types: map[string]*Type{}} }

// Resolve follows references until a type that is none. A reference to a type that is not in the document gives Any.
func (d *Document) Resolve(t *Type) *Type {
	for range 100 { // a document that was made by hand may go round in circles
		if t == nil {
			break
		}
		if t.Ref == "" {
			return t
		}
		t = d.Types[t.Ref]
	}
	return &Type{Kind: Any}
}

// HookNames lists the hooks, sorted.
func (d *Document) HookNames() []string { return slices.Sorted(maps.Keys(d.Hooks)) }

// FieldNames lists the fields of a type, sorted.
func (t *Type) FieldNames() []string { return slices.Sorted(maps.Keys(t.Fields)) }

// WithoutDescriptions gives a copy without texts: what a lock file needs.
func (d *Document) WithoutDescriptions() *Document {
	bare := New()
	for name, h := range d.Hooks {
		clone := *h
		clone.Description = ""
		bare.Hooks[name] = &clone
	}
	for name, t := range d.Types {
		bare.Types[name] = t.bare()
	}
	return bare
}

func (t *Type) bare() *Type {
	if t == nil {
		return nil
	}
	clone := *t
	clone.Description = ""
	clone.Items = t.Items.bare()
	if t.Fields != nil {
		clone.Fields = make(map[string]*Field, len(t.Fields))
		for name, f := range t.Fields {
			clone.Fields[name] = &Field{Type: *f.bare(), Required: f.Required}
		}
	}
	return &clone
}

// Describe takes over the descriptions, enumerations and required fields of another document, for types and fields that
// are in both.
func (d *Document) Describe(by *Document) {
	for name, t := range d.Types {
		from, ok := by.Types[name]
		if !ok {
			continue
		}
		t.Description = from.Description
		for fieldName, field := range t.Fields {
			if f, ok := from.Fields[fieldName]; ok {
				field.Description, field.Required = f.Description, f.Required
				if len(field.Enum) == 0 && field.Kind == String {
					field.Enum = f.Enum
				}
			}
		}
	}
}

// Check makes sure that every name leads somewhere.
func (d *Document) Check() error {
	for _, name := range d.HookNames() {
		for _, t := range []string{d.Hooks[name].Request, d.Hooks[name].Response} {
			if d.Types[t] == nil {
				return fmt.Errorf("hook %s has the type %s, which is not described", name, t)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Types)) {
		if err := d.check(d.Types[name]); err != nil {
			return fmt.Errorf("type %s: %w", name, err)
		}
	}
	return nil
}

func (d *Document) check(t *Type) error {
	if t == nil {
		return nil
	}
	if t.Ref != "" && d.Types[t.Ref] == nil {
		return fmt.Errorf("it has the type %s, which is not described", t.Ref)
	}
	for _, name := range t.FieldNames() {
		if err := d.check(&t.Fields[name].Type); err != nil {
			return err
		}
	}
	return d.check(t.Items)
}
