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

// Kind is a kind of objects that make up a Machine. It stands for templates of that kind too.
type Kind struct {
	// Group, such as "infrastructure.cluster.x-k8s.io".
	Group string
	// Name as of objects, not of templates, such as "CapstanMachine".
	Name string
}

// Kinds that every management cluster has.
var (
	// Machine stands for the spec of Machines themselves, and for the one in a MachineSet: version and failure domain are
	// there.
	Machine = Kind{"cluster.x-k8s.io", "Machine"}
	// KubeadmConfig is the bootstrap configuration of kubeadm.
	KubeadmConfig = Kind{"bootstrap.cluster.x-k8s.io", "KubeadmConfig"}
)

// matches tells whether an object is of the kind, or a template for it.
func (k Kind) matches(object metav1.TypeMeta) bool {
	gv, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil || gv.Group != k.Group {
		return false
	}
	return object.Kind == k.Name || object.Kind == k.Name+"Template" || k == Machine && object.Kind == "MachineSet"
}

// Rule says what can be changed in objects of one kind while the machine runs. Make it with [Fields] or [Take]. What is
// wrong with it is reported by server.New.
type Rule struct {
	kind    Kind
	problem error
	// paths gives what can be taken over from the wanted spec, as paths below the spec.
	paths func(ctx context.Context, current, desired []byte) ([][]string, error)
}

// Fields takes over whatever changes in these fields, each as names with dots below the spec, such as "files" or
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
			r.problem = fmt.Errorf("the rule for %s has the field %q: write it as names with dots, without the spec that they "+
				"are in", kind.Name, field)
		}
		paths = append(paths, names)
	}
	r.paths = func(context.Context, []byte, []byte) ([][]string, error) { return paths, nil }
	return r
}

// Take takes over what a function does, where fields alone don't tell: a memory that may grow and not shrink. T is the
// Go type of the spec, such as KubeadmConfigSpec, and the same for Machines and for templates. The function sets in
// current what it takes over from desired, and nothing else: what is neither as it was nor as it is wanted is an error.
// Fields that T does not know stay as they are, and count as a change that can't be made in place if they differ.
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
		target, err := json.Marshal(wanted) // before the function, which may change it
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

// taken gives the paths at which a spec was changed, and checks that it is there as it is wanted.
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
			return nil, fmt.Errorf("the rule for %s sets %s to something that is not wanted: it may take over what is wanted, "+
				"and nothing else", kind.Name, strings.Join(leaf.path, "."))
		}
		paths = append(paths, leaf.path)
	}
	return paths, nil
}

// leaf is one value of a merge patch; nil stands for removal.
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

// valueAt gives nil for what is not there.
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
