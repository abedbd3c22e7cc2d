// Package schema validates objects against schemas with the code of API servers: unknown fields, types, defaults, lists
// and CEL rules.
package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Schema is a schema prepared for validation.
type Schema struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	root       bool
}

// New prepares a schema. If root is true, the schema describes whole objects, which have metadata. New fails if an API
// server would refuse the schema.
func New(props *apiextensionsv1.JSONSchemaProps, root bool) (*Schema, error) {
	internal := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil)
	if err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	return &Schema{structural, validator, cel.NewValidator(structural, root, celconfig.PerCallLimit), root}, nil
}

// Problem is something that an API server refuses or drops in an object.
type Problem struct {
	// Path is the path of the field.
	Path []string
	// Message says what is wrong.
	Message string
}

// Judge returns what is wrong with a value, without changing it. It skips fields that contain an unset variable.
func (s *Schema) Judge(value map[string]any) []Problem {
	object, err := copied(value)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	var all []Problem
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, s.structural, s.root, options) {
		all = append(all, Problem{steps(path), "the definition has no such field: the API server drops it"})
	}
	if s.root {
		defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	}
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if s.rules != nil && len(errs) == 0 && !open(object) {
		broken, _ := s.rules.Validate(context.Background(), nil, s.structural, object, nil,
			celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	for _, err := range errs {
		if problem, ok := problemOf(object, err); ok {
			all = append(all, problem)
		}
	}
	return all
}

// copied returns a deep copy in the types of JSON.
func copied(value map[string]any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, utiljson.Unmarshal(data, &object)
}

// inDetail finds the path of a field in the message of an error that is reported for the whole object.
var inDetail = regexp.MustCompile(`(?s)^(?:"([\w.\[\]-]+)" must .*|.* in (\w[\w.-]*[.\[][\w.\[\]-]+)|.*)$`)

// problemOf converts an error of the API server. The second result is false if the error concerns an unset variable.
func problemOf(object map[string]any, err *field.Error) (Problem, bool) {
	path := steps(err.Field)
	if err.Field == "<nil>" {
		path = steps(strings.Join(inDetail.FindStringSubmatch(err.Detail)[1:], ""))
	}
	if open(at(object, path)) {
		return Problem{}, false
	}
	return Problem{path, fmt.Sprintf("%s: %s", strings.ToLower(err.Type.String()), err.Detail)}, true
}

// open reports whether a value contains an unset variable.
func open(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, "${")
	case []any:
		for _, element := range v {
			if open(element) {
				return true
			}
		}
	case map[string]any:
		for _, element := range v {
			if open(element) {
				return true
			}
		}
	}
	return false
}

// at returns the value at a path, or nil.
func at(value any, path []string) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// steps splits a path such as spec.versions[0].name.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
}
