package inplace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of the objects that make up a Machine. It includes templates of that kind.
type Kind struct {
	// Group, such as "infrastructure.cluster.x-k8s.io".
	Group string
	// Name of the kind, such as "CapstanMachine". For templates, too, this is the name without "Template".
	Name string
}

// Kinds that every management cluster has.
var (
	// Machine stands for Machines, and for the Machine template in a MachineSet. Their spec contains, for example, the
	// version and the failure domain.
	Machine = Kind{"cluster.x-k8s.io", "Machine"}
	// KubeadmConfig is the bootstrap configuration of kubeadm.
	KubeadmConfig = Kind{"bootstrap.cluster.x-k8s.io", "KubeadmConfig"}
)

// matches reports whether an object is of the kind, or a template for it.
func (k Kind) matches(object metav1.TypeMeta) bool {
	gv, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil || gv.Group != k.Group {
		return false
	}
	return object.Kind == k.Name || object.Kind == k.Name+"Template" || k == Machine && object.Kind == "MachineSet"
}

// Rule defines what can be changed in objects of one kind while the machine runs. Make it with [Fields] or [Take].
// server.New reports an invalid rule.
type Rule struct {
	kind    Kind
	problem error
	// paths returns the paths, below the spec, whose desired values can be set in place.
	paths func(ctx context.Context, current, desired []byte) ([][]string, error)
}

// Fields allows any change of these fields. Each is a dotted path below the spec, such as "files" or
// "clusterConfiguration.apiServer.extraArgs".
func Fields(kind Kind, fields ...string) Rule {
	r := Rule{kind: kind}
	if len(fields) == 0 {
		r.problem = fmt.Errorf("the rule for %s names no field", kind.Name)
	}
	var paths [][]string
	for _, field := range fields {
		names := strings.Split(field, ".")
		if slices.Contains(names, "") || names[0] == "spec" {
			r.problem = fmt.Errorf("the rule for %s has the field %q: write the path below the spec, without "+
				"\"spec\", as names separated by dots, such as clusterConfiguration.apiServer", kind.Name, field)
		}
		paths = append(paths, names)
	}
	r.paths = func(context.Context, []byte, []byte) ([][]string, error) { return paths, nil }
	return r
}

// Take allows the changes that a function makes. Use it where field names do not suffice, for example for memory that
// may grow but not shrink. T is the Go type of the spec, such as KubeadmConfigSpec, for Machines and templates alike.
// The function copies from desired to current what can be changed in place, and nothing else: a value that is neither
// the current nor the desired one is an error. Fields that are not in T stay as they are; if they differ, the
// change can't be made in place.
func Take[T any](kind Kind, take func(ctx context.Context, current, desired *T) error) Rule {
	r := Rule{kind: kind}
	if take == nil {
		r.problem = fmt.Errorf("the rule for %s has no function", kind.Name)
	}
	r.paths = func(ctx context.Context, current, desired []byte) ([][]string, error) {
		before, after, wanted := new(T), new(T), new(T)
		if err := errors.Join(json.Unmarshal(current, before), json.Unmarshal(current, after),
			json.Unmarshal(desired, wanted)); err != nil {
			return nil, fmt.Errorf("decoding the spec of %s as %T: %w", kind.Name, *wanted, err)
		}
		target, err := json.Marshal(wanted) // encoded before take runs, because take may change it
		if err != nil {
			return nil, fmt.Errorf("encoding the spec of %s: %w", kind.Name, err)
		}
		if err := take(ctx, after, wanted); err != nil {
			return nil, err
		}
		from, err := json.Marshal(before)
		if err != nil {
			return nil, fmt.Errorf("encoding the spec of %s: %w", kind.Name, err)
		}
		to, err := json.Marshal(after)
		if err != nil {
			return nil, fmt.Errorf("encoding the spec of %s: %w", kind.Name, err)
		}
		return taken(kind, from, to, target)
	}
	return r
}

// taken returns the paths at which a spec was changed, and checks that they have the desired values.
func taken(kind Kind, from, to, target []byte) ([][]string, error) {
	difference, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing the spec of %s: %w", kind.Name, err)
	}
	var change, wanted any
	if err := errors.Join(json.Unmarshal(difference, &change), json.Unmarshal(target, &wanted)); err != nil {
		return nil, fmt.Errorf("comparing the spec of %s: %w", kind.Name, err)
	}
	var paths [][]string
	for _, leaf := range leaves(nil, change) {
		if !reflect.DeepEqual(valueAt(wanted, leaf.path), leaf.value) {
			return nil, fmt.Errorf("the rule for %s sets %s to something that is not desired: a rule may only set "+
				"desired values", kind.Name, strings.Join(leaf.path, "."))
		}
		paths = append(paths, leaf.path)
	}
	return paths, nil
}

// leaf is one value of a merge patch; nil means removal.
type leaf struct {
	path  []string
	value any
}

func leaves(path []string, change any) []leaf {
	object, ok := change.(map[string]any)
	if !ok || len(object) == 0 && len(path) > 0 {
		return []leaf{{path, change}}
	}
	var all []leaf
	for _, name := range slices.Sorted(maps.Keys(object)) {
		all = append(all, leaves(append(path[:len(path):len(path)], name), object[name])...)
	}
	return all
}

// valueAt returns nil if there is no value.
func valueAt(value any, path []string) any {
	for _, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}
