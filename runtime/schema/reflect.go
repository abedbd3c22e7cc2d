package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Reflect describes the hooks of a catalog from their Go types.
func Reflect(catalog *hook.Catalog) (*Document, error) {
	r := reflector{document: New()}
	for _, d := range catalog.All() {
		request, response := reflect.TypeOf(d.NewRequest()).Elem(), reflect.TypeOf(d.NewResponse()).Elem()
		facts := catalog.Facts(d.ID)
		h := &Hook{
			Request: nameOf(request), Response: nameOf(response), Blocking: d.CanWait,
			Description: facts.Summary, Deprecated: string(facts.Deprecated),
		}
		if !facts.DeprecatedOn.IsZero() {
			h.DeprecatedOn = facts.DeprecatedOn.UTC().Format(time.DateOnly)
		}
		r.document.Hooks[d.ID.String()] = h
		for _, t := range []reflect.Type{request, response} {
			if t.Kind() != reflect.Struct {
				return nil, fmt.Errorf("describing hook %s: %s is not a struct", d.ID, t)
			}
			r.typeOf(t)
		}
	}
	return r.document, r.document.Check()
}

// ReflectType describes one Go type. A named struct is a reference into the document's types.
func ReflectType(t reflect.Type) (*Type, *Document) {
	r := reflector{document: New()}
	return r.typeOf(t), r.document
}

type reflector struct{ document *Document }

func nameOf(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// openAPITyped is implemented by API types with their own encoding, to declare their type.
type openAPITyped interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	openAPITypedType  = reflect.TypeFor[openAPITyped]()
)

func (r reflector) typeOf(t reflect.Type) *Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(openAPITypedType):
		typed := reflect.New(t).Interface().(openAPITyped)
		return encodedAs(typed.OpenAPISchemaType(), typed.OpenAPISchemaFormat())
	case pointer.Implements(marshalerType):
		return &Type{Kind: Any}
	case pointer.Implements(textMarshalerType):
		return &Type{Kind: String}
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.structOf(t)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return &Type{Kind: String, Format: "byte"}
		}
		return &Type{Kind: Array, Items: r.typeOf(t.Elem())}
	case reflect.Map:
		return &Type{Kind: Map, Items: r.typeOf(t.Elem())}
	case reflect.Interface:
		return &Type{Kind: Any}
	}
	return basic(t.Kind().String())
}

func (r reflector) structOf(t reflect.Type) *Type {
	if t.Name() == "" {
		described := &Type{Kind: Object, Fields: map[string]*Field{}}
		r.fields(t, described)
		return described
	}
	name := nameOf(t)
	if r.document.Types[name] == nil {
		described := &Type{Kind: Object, Fields: map[string]*Field{}}
		r.document.Types[name] = described // before its fields: a type may be recursive
		r.fields(t, described)
	}
	return &Type{Ref: name}
}

func (r reflector) fields(t reflect.Type, into *Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := readTag(field.Tag.Get("json"))
		if tag.skip {
			continue
		}
		if field.Anonymous && tag.name == "" {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				r.fields(embedded, into)
				continue
			}
		}
		if !field.IsExported() {
			continue
		}
		name := tag.name
		if name == "" {
			name = field.Name
		}
		into.Fields[name] = &Field{Type: *r.typeOf(field.Type), Required: !tag.optional}
	}
}

// jsonTag is a decoded json tag.
type jsonTag struct {
	name     string
	optional bool
	skip     bool
}

func readTag(tag string) jsonTag {
	name, options, _ := strings.Cut(tag, ",")
	if tag == "-" {
		return jsonTag{skip: true}
	}
	return jsonTag{name: name, optional: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")}
}

// encodedAs describes a type as it declares itself.
func encodedAs(types []string, format string) *Type {
	if len(types) != 1 {
		return &Type{Kind: Any, Format: format}
	}
	return &Type{Kind: Kind(types[0]), Format: format}
}

// basic describes a basic type of Go by its name.
func basic(name string) *Type {
	switch name {
	case "string":
		return &Type{Kind: String}
	case "bool":
		return &Type{Kind: Boolean}
	case "int32", "int64":
		return &Type{Kind: Integer, Format: name}
	case "int", "int8", "int16", "uint", "uint8", "uint16", "uint32", "uint64", "byte", "rune":
		return &Type{Kind: Integer}
	case "float32":
		return &Type{Kind: Number, Format: "float"}
	case "float64":
		return &Type{Kind: Number, Format: "double"}
	}
	return &Type{Kind: Any}
}
