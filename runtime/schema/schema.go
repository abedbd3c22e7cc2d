// Package schema describes hooks and the types of their requests and responses as data, so that they can be documented
// and compared.
//
// There are two ways to make a [Document]. [Reflect] uses the Go types of a catalog that is linked into the process.
// [Source.Read] reads Go source, which makes it possible to compare releases that can't be linked into one process.
// Source also knows what reflection can't see: comments, and the markers for required fields and enumerations.
//
// Both describe what encoding/json makes of a type, not its Go structure: embedded structs are flattened, and types
// with their own encoding are described as they declare themselves.
package schema

import (
	"fmt"
	"maps"
	"slices"
)

// Document describes hooks.
type Document struct {
	// Hooks are keyed by "group/version/Name", see hook.ID.
	Hooks map[string]*Hook `json:"hooks"`
	// Types are the named structs, keyed by import path, a dot, and name.
	Types map[string]*Type `json:"types"`
}

// Hook is one version of a hook.
type Hook struct {
	// Request is the name of the request's type.
	Request string `json:"request"`
	// Response is the name of the response's type.
	Response string `json:"response"`
	// Blocking reports whether responses have the field retryAfterSeconds.
	Blocking bool `json:"blocking,omitempty"`
	// Description of the hook.
	Description string `json:"description,omitempty"`

	// Deprecated is the release that deprecated this version, empty if none has.
	Deprecated string `json:"deprecated,omitempty"`
	// DeprecatedOn is the date of that release, as 2006-01-02, empty if unknown.
	DeprecatedOn string `json:"deprecatedOn,omitempty"`
}

// Kind is the kind of a value in JSON.
type Kind string

// The kinds.
const (
	Object  Kind = "object"
	Map     Kind = "map" // an object with arbitrary names
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
	// Format refines strings and numbers, with OpenAPI's names: "byte", "date-time", "int32".
	Format string `json:"format,omitempty"`
	// Fields of an Object, by their JSON names.
	Fields map[string]*Field `json:"fields,omitempty"`
	// Items is the type of the elements of an Array or a Map.
	Items *Type `json:"items,omitempty"`
	// Enum lists the allowed values of a String; empty if any is allowed.
	Enum []string `json:"enum,omitempty"`
	// Description of the type.
	Description string `json:"description,omitempty"`
}

// Field is one field of an object.
type Field struct {
	Type
	// Required reports whether the field must be present.
	Required bool `json:"required,omitempty"`
}

// New returns an empty document.
func New() *Document { return &Document{Hooks: map[string]*Hook{}, Types: map[string]*Type{}} }

// Resolve follows references until it reaches a described type. It returns Any if a referenced type is not in the
// document.
func (d *Document) Resolve(t *Type) *Type {
	for range 100 { // a hand-written document may contain cycles
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

// HookNames returns the names of the hooks, sorted.
func (d *Document) HookNames() []string { return slices.Sorted(maps.Keys(d.Hooks)) }

// FieldNames returns the names of a type's fields, sorted.
func (t *Type) FieldNames() []string { return slices.Sorted(maps.Keys(t.Fields)) }

// WithoutDescriptions returns a copy without texts, as used in a lock file.
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

// Describe copies the descriptions, enumerations and required fields from another document, for types and fields that
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

// Check checks that every reference can be resolved.
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
