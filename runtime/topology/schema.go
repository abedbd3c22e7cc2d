package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Schema derives the schema of a variable from a Go type, from its fields and their tags:
//
//	type Memory struct {
//		// Names follow encoding/json. A field without omitempty or omitzero is required.
//		Size  int64  `json:"size" schema:"minimum=256,maximum=65536" description:"in MiB"`
//		Class string `json:"class,omitempty" schema:"enum=slow|fast,default=slow"`
//	}
//
// The tag schema holds, separated by commas: minimum, maximum (numbers), minLength, maxLength, pattern, format, enum
// (values separated by |), default (strings, numbers, booleans), minItems, maxItems. A pattern must not contain
// commas. Types may be structs, pointers, slices, maps with string keys, and JSON's basic types. A recursive type has
// no schema. A type with its own encoding declares its type by a method OpenAPISchemaType, as those of the API
// machinery do.
func Schema(t reflect.Type) (clusterv1.JSONSchemaProps, error) {
	return derive(t, nil)
}

type openAPITyped interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

func derive(t reflect.Type, above []reflect.Type) (clusterv1.JSONSchemaProps, error) {
	none := clusterv1.JSONSchemaProps{}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, outer := range above {
		if outer == t {
			return none, fmt.Errorf("%s contains itself, which a variable's schema can't", t)
		}
	}
	above = append(above[:len(above):len(above)], t)
	if typed, ok := reflect.New(t).Interface().(openAPITyped); ok {
		types := typed.OpenAPISchemaType()
		if len(types) != 1 {
			return clusterv1.JSONSchemaProps{XPreserveUnknownFields: ptr.To(true)}, nil
		}
		return clusterv1.JSONSchemaProps{Type: types[0], Format: typed.OpenAPISchemaFormat()}, nil
	}
	if _, ok := reflect.New(t).Interface().(json.Marshaler); ok {
		return clusterv1.JSONSchemaProps{XPreserveUnknownFields: ptr.To(true)}, nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return clusterv1.JSONSchemaProps{Type: "string"}, nil
	case kind == reflect.Bool:
		return clusterv1.JSONSchemaProps{Type: "boolean"}, nil
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return integer(t), nil
	case kind == reflect.Float32 || kind == reflect.Float64:
		return clusterv1.JSONSchemaProps{Type: "number"}, nil
	case kind == reflect.Interface:
		return clusterv1.JSONSchemaProps{XPreserveUnknownFields: ptr.To(true)}, nil
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return clusterv1.JSONSchemaProps{Type: "string", Format: "byte"}, nil
	case kind == reflect.Slice || kind == reflect.Array:
		items, err := derive(t.Elem(), above)
		return clusterv1.JSONSchemaProps{Type: "array", Items: &items}, err
	case kind == reflect.Map && t.Key().Kind() == reflect.String:
		values, err := derive(t.Elem(), above)
		return clusterv1.JSONSchemaProps{Type: "object", AdditionalProperties: &values}, err
	case kind == reflect.Struct:
		object := clusterv1.JSONSchemaProps{Type: "object", Properties: map[string]clusterv1.JSONSchemaProps{}}
		return object, addFields(&object, t, above)
	}
	return none, fmt.Errorf("a variable can't hold a %s", t)
}

func integer(t reflect.Type) clusterv1.JSONSchemaProps {
	s := clusterv1.JSONSchemaProps{Type: "integer"}
	switch t.Kind() {
	case reflect.Int32:
		s.Format = "int32"
	case reflect.Int64:
		s.Format = "int64"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.Minimum = ptr.To[int64](0)
	}
	return s
}

func addFields(object *clusterv1.JSONSchemaProps, t reflect.Type, above []reflect.Type) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Tag.Get("json") == "-" {
			continue
		}
		if field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct {
			if err := addFields(object, field.Type, above); err != nil {
				return err
			}
			continue
		}
		if !field.IsExported() {
			continue
		}
		if name == "" {
			return fmt.Errorf("field %s of %s has no name in JSON: give it a tag", field.Name, t)
		}
		property, err := derive(field.Type, above)
		if err != nil {
			return fmt.Errorf("field %s of %s: %w", field.Name, t, err)
		}
		if err := constrain(&property, field.Tag.Get("schema")); err != nil {
			return fmt.Errorf("field %s of %s: %w", field.Name, t, err)
		}
		property.Description = field.Tag.Get("description")
		object.Properties[name] = property
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			object.Required = append(object.Required, name)
		}
	}
	return nil
}

// constrain applies the tag schema.
func constrain(s *clusterv1.JSONSchemaProps, tag string) error {
	if tag == "" {
		return nil
	}
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		var err error
		switch key {
		case "minimum":
			s.Minimum, err = number(value)
		case "maximum":
			s.Maximum, err = number(value)
		case "minLength":
			s.MinLength, err = number(value)
		case "maxLength":
			s.MaxLength, err = number(value)
		case "minItems":
			s.MinItems, err = number(value)
		case "maxItems":
			s.MaxItems, err = number(value)
		case "pattern":
			s.Pattern = value
		case "format":
			s.Format = value
		case "enum":
			for one := range strings.SplitSeq(value, "|") {
				encoded, encodeErr := literal(s.Type, one)
				if encodeErr != nil {
					err = encodeErr
					break
				}
				s.Enum = append(s.Enum, encoded)
			}
		case "default":
			var encoded apiextensionsv1.JSON
			encoded, err = literal(s.Type, value)
			s.Default = &encoded
		default:
			err = fmt.Errorf("the tag schema has the unknown part %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func number(text string) (*int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the tag schema has %q where a whole number should be", text)
	}
	return &value, nil
}

// literal encodes a value from a tag.
func literal(kind, text string) (apiextensionsv1.JSON, error) {
	var value any = text
	var err error
	switch kind {
	case "string":
	case "integer":
		value, err = strconv.ParseInt(text, 10, 64)
	case "number":
		value, err = strconv.ParseFloat(text, 64)
	case "boolean":
		value, err = strconv.ParseBool(text)
	default:
		return apiextensionsv1.JSON{}, fmt.Errorf("the tag schema has a value for a type that it can't have one for (%s)",
			kind)
	}
	if err != nil {
		return apiextensionsv1.JSON{}, fmt.Errorf("the tag schema has the value %q, which is not of type %s", text, kind)
	}
	data, err := json.Marshal(value)
	return apiextensionsv1.JSON{Raw: data}, err
}
