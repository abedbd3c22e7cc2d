package topology

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/server"
)

// Variable is a variable of a ClusterClass as a Go type. Make it with [Define].
type Variable[T any] struct {
	definition clusterv1.ClusterClassVariable
	err        error
}

// Definition is what [DiscoverVariables] takes: a [Variable] of any type.
type Definition interface {
	define() (clusterv1.ClusterClassVariable, error)
}

// VariableOption changes the definition of a variable.
type VariableOption func(*clusterv1.ClusterClassVariable)

// Required makes the variable mandatory for every Cluster.
func Required() VariableOption {
	return func(v *clusterv1.ClusterClassVariable) { v.Required = ptr.To(true) }
}

// Description sets the description in the variable's schema.
func Description(text string) VariableOption {
	return func(v *clusterv1.ClusterClassVariable) { v.Schema.OpenAPIV3Schema.Description = text }
}

// Define makes a variable with the schema of T, see [Schema]. [DiscoverVariables] and [Variable.Get] report what is
// wrong with it.
func Define[T any](name string, opts ...VariableOption) Variable[T] {
	schema, err := Schema(reflect.TypeFor[T]())
	v := Variable[T]{err: err, definition: clusterv1.ClusterClassVariable{
		Name: name, Required: ptr.To(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema},
	}}
	for _, opt := range opts {
		opt(&v.definition)
	}
	switch {
	case v.err != nil:
	case name == "":
		v.err = errors.New("a variable has no name")
	case name == runtimehooksv1.BuiltinsName:
		v.err = fmt.Errorf("the name %q is Cluster API's own", name)
	case strings.ContainsAny(name, ". "):
		v.err = fmt.Errorf("the name %q of a variable must not have dots or spaces", name)
	}
	return v
}

func (v Variable[T]) define() (clusterv1.ClusterClassVariable, error) { return v.definition, v.err }

// Get returns the value of the variable and whether it is set. If it occurs several times, the last one wins: a
// template's variables come after the Cluster's.
func (v Variable[T]) Get(variables []runtimehooksv1.Variable) (value T, found bool, err error) {
	if v.err != nil {
		return value, false, v.err
	}
	for _, candidate := range slices.Backward(variables) {
		if candidate.Name != v.definition.Name {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(candidate.Value.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&value); err != nil {
			var zero T
			return zero, false, fmt.Errorf("decoding variable %q: %w", candidate.Name, err)
		}
		return value, true, nil
	}
	return value, false, nil
}

// DiscoverVariables makes a handler's function that answers with the definitions of variables, sorted by name (UH-05).
// An invalid definition makes it answer with status Failure; [CheckVariables] finds it in a test.
func DiscoverVariables(definitions ...Definition) server.Func[runtimehooksv1.DiscoverVariablesRequest,
	runtimehooksv1.DiscoverVariablesResponse] {
	variables, err := CheckVariables(definitions...)
	return func(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest,
		response *runtimehooksv1.DiscoverVariablesResponse) error {
		response.Variables = variables
		return err
	}
}

// CheckVariables returns the definitions of variables, sorted by name. The error names everything that is wrong with
// them.
func CheckVariables(definitions ...Definition) ([]clusterv1.ClusterClassVariable, error) {
	var variables []clusterv1.ClusterClassVariable
	names := map[string]bool{}
	var errs []error
	for _, d := range definitions {
		v, err := d.define()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("variable %q: %w", v.Name, err))
		case names[v.Name]:
			errs = append(errs, fmt.Errorf("variable %q is defined twice", v.Name))
		}
		names[v.Name] = true
		variables = append(variables, v)
	}
	slices.SortFunc(variables, func(a, b clusterv1.ClusterClassVariable) int { return strings.Compare(a.Name, b.Name) })
	return variables, errors.Join(errs...)
}
