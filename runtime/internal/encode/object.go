package encode

import (
	"reflect"
	"strings"
)

// field is one field of an object, from a struct or from one embedded in it.
type field struct {
	name      string // with quotes and colon
	index     []int  // path to it through embedded structs
	encode    encoder
	omitEmpty func(reflect.Value) bool // nil: omitempty does not apply
	omitZero  func(reflect.Value) bool
}

// object returns the encoder of a struct. It falls back to encoding/json for unusual structs.
func object(t reflect.Type) encoder {
	fields, ok := fieldsOf(t, nil, nil)
	names := map[string]bool{}
	for _, f := range fields {
		// If two fields share a name, encoding/json decides which one wins.
		ok = ok && !names[f.name]
		names[f.name] = true
	}
	if !ok {
		return standard
	}
	return func(to []byte, v reflect.Value) (_ []byte, err error) {
		separator := byte('{')
		for i := range fields {
			f := &fields[i]
			value := v
			for _, step := range f.index {
				value = value.Field(step)
			}
			if f.omitEmpty != nil && f.omitEmpty(value) || f.omitZero != nil && f.omitZero(value) {
				continue
			}
			to = append(to, separator)
			to = append(to, f.name...)
			if to, err = f.encode(to, value); err != nil {
				return to, err
			}
			separator = ','
		}
		if separator == '{' {
			to = append(to, '{')
		}
		return append(to, '}'), nil
	}
}

// fieldsOf lists the fields in their order. It returns false for unusual structs.
func fieldsOf(t reflect.Type, way []int, fields []field) (_ []field, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		here := append(way[:len(way):len(way)], i)
		if f.Anonymous {
			if f.Type.Kind() != reflect.Struct {
				return nil, false
			}
			if name == "" {
				if fields, ok = fieldsOf(f.Type, here, fields); !ok {
					return nil, false
				}
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		made := field{index: here, encode: encoderOf(f.Type)}
		for _, c := range []byte(name) {
			if !plain[c] || c == ',' || c == '\'' {
				return nil, false
			}
		}
		made.name = `"` + name + `":`
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				made.omitEmpty = emptyOf(f.Type)
			case "omitzero":
				made.omitZero = zeroOf(f.Type)
			case "string":
				return nil, false
			}
		}
		fields = append(fields, made)
	}
	return fields, true
}

// emptyOf returns the meaning of omitempty for a type; nil if no value of the type is empty.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Struct:
		return nil
	}
	return reflect.Value.IsZero
}

// zeroOf returns the meaning of omitzero for a type.
func zeroOf(t reflect.Type) func(reflect.Value) bool {
	type zeroer interface{ IsZero() bool }
	is := reflect.TypeFor[zeroer]()
	switch {
	case t.Kind() == reflect.Interface && t.Implements(is):
		return func(v reflect.Value) bool {
			return v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() || v.Interface().(zeroer).IsZero()
		}
	case t.Kind() == reflect.Pointer && t.Implements(is):
		return func(v reflect.Value) bool { return v.IsNil() || v.Interface().(zeroer).IsZero() }
	case reflect.PointerTo(t).Implements(is):
		return func(v reflect.Value) bool { return v.Addr().Interface().(zeroer).IsZero() }
	}
	return reflect.Value.IsZero
}
