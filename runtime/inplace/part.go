package inplace

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// part is one of the objects that make up a Machine, and the place for its patch.
type part struct {
	what             string
	current, desired any
	patch            *runtimehooksv1.Patch
}

// take computes the patches for all parts. spec is the path of the spec in each of them.
func (u Updater) take(ctx context.Context, spec []string, parts ...part) error {
	for _, p := range parts {
		if err := u.takePart(ctx, spec, p); err != nil {
			return fmt.Errorf("comparing the %s with what is desired: %w", p.what, err)
		}
	}
	return nil
}

func (u Updater) takePart(ctx context.Context, spec []string, p part) error {
	current, err := document(p.current)
	if err != nil {
		return err
	}
	desired, err := document(p.desired)
	if err != nil {
		return err
	}
	if current == nil || desired == nil { // the Machine has no such object
		return nil
	}
	var object metav1.TypeMeta
	if err := json.Unmarshal(current, &object); err != nil {
		return fmt.Errorf("decoding the current object: %w", err)
	}
	before, err := at(current, spec)
	if err != nil {
		return err
	}
	wanted, err := at(desired, spec)
	if err != nil {
		return err
	}
	var paths [][]string
	for _, rule := range u.Takes {
		if !rule.kind.matches(object) {
			continue
		}
		more, err := rule.paths(ctx, before, wanted)
		if err != nil {
			return err
		}
		for _, path := range more {
			paths = append(paths, append(spec[:len(spec):len(spec)], path...))
		}
	}
	if len(paths) == 0 {
		return nil
	}
	*p.patch, err = patch.OnlyAt(current, desired, paths...)
	return err
}

// document returns an object as JSON, or nil if there is none.
func document(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if raw, ok := object.(runtime.RawExtension); ok {
		data, err = raw.Raw, nil
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the current or desired object: %w", err)
	}
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	return data, nil
}

// at returns the value at a path of a document, or an empty object if there is none.
func at(data []byte, path []string) ([]byte, error) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("decoding the current or desired object: %w", err)
		}
		if data = object[name]; data == nil || string(data) == "null" {
			return []byte("{}"), nil
		}
	}
	return data, nil
}
