// Package patch computes the shortest patch from one JSON document to another, as a JSON merge patch (RFC 7386) or a
// JSON patch (RFC 6902): the two forms in which hooks of Cluster API answer.
//
// The same documents produce the same patch.
//
// Ids such as UH-07 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package patch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Diff returns the shorter of the merge patch and the JSON patch that turn the document before into the document after.
// If both patches are equally long, it returns the merge patch. If nothing differs, it returns an undefined patch (see
// [runtimehooksv1.Patch.IsDefined]). Diff verifies a patch by applying it before it returns the patch.
func Diff(before, after []byte) (runtimehooksv1.Patch, error) {
	from, err := decode(before)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("comparing two documents: decoding the first: %w", err)
	}
	to, err := decode(after)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("comparing two documents: decoding the second: %w", err)
	}
	if equal(from, to) {
		return runtimehooksv1.Patch{}, nil
	}
	candidates, err := candidates(from, to)
	if err != nil {
		return runtimehooksv1.Patch{}, err
	}
	var errs []error
	for _, p := range candidates {
		if err := verify(before, to, p); err != nil {
			errs = append(errs, err)
			continue
		}
		return p, nil
	}
	return runtimehooksv1.Patch{}, fmt.Errorf("no patch leads from one document to the other: %w", errors.Join(errs...))
}

// candidates returns the patches to choose from, the shortest first.
func candidates(from, to any) ([]runtimehooksv1.Patch, error) {
	var all []runtimehooksv1.Patch
	if merge, ok := mergeDiff(from, to); ok {
		data, err := json.Marshal(merge)
		if err != nil {
			return nil, fmt.Errorf("encoding a merge patch: %w", err)
		}
		all = append(all, runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: data})
	}
	data, err := json.Marshal(operations("", from, to, []operation{}))
	if err != nil {
		return nil, fmt.Errorf("encoding a JSON patch: %w", err)
	}
	all = append(all, runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: data})
	slices.SortStableFunc(all, func(a, b runtimehooksv1.Patch) int { return cmp.Compare(len(a.Patch), len(b.Patch)) })
	return all, nil
}

// verify applies a patch and fails if the result is wrong: such a patch must never leave the process.
func verify(before []byte, want any, p runtimehooksv1.Patch) error {
	data, err := Apply(before, p)
	if err != nil {
		return err
	}
	got, err := decode(data)
	if err != nil {
		return fmt.Errorf("decoding a patched document: %w", err)
	}
	if !equal(got, want) {
		return fmt.Errorf("a %s does not produce what it was made for: %s", p.PatchType, p.Patch)
	}
	return nil
}

// Apply applies a patch to a document and returns the result. It rejects a patch that exceeds [MaxOperations],
// [MaxCopies] or [MaxDocument].
func Apply(document []byte, p runtimehooksv1.Patch) ([]byte, error) {
	switch p.PatchType {
	case runtimehooksv1.JSONMergePatchType:
		if err := checkSize("a merge patch", p.Patch); err != nil {
			return nil, err
		}
		after, err := jsonpatch.MergePatch(document, p.Patch)
		if err != nil {
			return nil, fmt.Errorf("applying a merge patch: %w", err)
		}
		return after, checkSize("the patched document", after)
	case runtimehooksv1.JSONPatchType:
		decoded, err := decodeOperations(p.Patch)
		if err != nil {
			return nil, err
		}
		after, err := decoded.ApplyWithOptions(document, applyOptions())
		if err != nil {
			return nil, fmt.Errorf("applying a JSON patch: %w", err)
		}
		return after, checkSize("the patched document", after)
	}
	return nil, fmt.Errorf("the patch type %q does not exist: it must be JSONPatch or JSONMergePatch", p.PatchType)
}

// Only is [Diff] for the differences at or below some paths, such as "spec.memory"; the patch leaves the rest of the
// document unchanged. With it an extension answers CanUpdateMachine: it passes the paths that it can change in place
// (UH-07).
func Only(before, after []byte, paths ...string) (runtimehooksv1.Patch, error) {
	split := make([][]string, 0, len(paths))
	for _, path := range paths {
		split = append(split, strings.Split(path, "."))
	}
	return OnlyAt(before, after, split...)
}

// OnlyAt is [Only] with paths as lists of names, for names that contain dots.
func OnlyAt(before, after []byte, paths ...[]string) (runtimehooksv1.Patch, error) {
	result, err := decode(before)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("comparing two documents: decoding the first: %w", err)
	}
	to, err := decode(after)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("comparing two documents: decoding the second: %w", err)
	}
	for _, names := range paths {
		if value, ok := get(to, names); ok {
			result = set(result, names, value)
		} else {
			result = remove(result, names)
		}
	}
	data, err := json.Marshal(result)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("encoding a document: %w", err)
	}
	return Diff(before, data)
}

// decode keeps numbers as they are written.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is more than one document")
	}
	return value, nil
}

func equal(a, b any) bool {
	switch one := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && maps.EqualFunc(one, other, equal)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(one, other, equal)
	}
	if isContainer(b) {
		return false
	}
	return a == b
}

func isContainer(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// mergeDiff returns a merge patch; there is none if a value becomes null, because null means removal there.
func mergeDiff(from, to any) (patch any, ok bool) {
	before, fromObject := from.(map[string]any)
	after, toObject := to.(map[string]any)
	if !fromObject || !toObject {
		return to, to != nil && !hasNull(to)
	}
	merge := map[string]any{}
	for name := range before {
		if _, stays := after[name]; !stays {
			merge[name] = nil
		}
	}
	for name, value := range after {
		old, existed := before[name]
		switch {
		case !existed:
			if value == nil || hasNull(value) {
				return nil, false
			}
			merge[name] = value
		case !equal(old, value):
			if merge[name], ok = mergeDiff(old, value); !ok {
				return nil, false
			}
		}
	}
	return merge, true
}

// hasNull reports whether any object inside a value has a null member; in lists, null is a value like others.
func hasNull(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for _, member := range object {
		if member == nil || hasNull(member) {
			return true
		}
	}
	return false
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"`
}

func operations(path string, from, to any, into []operation) []operation {
	if equal(from, to) {
		return into
	}
	if before, ok := from.(map[string]any); ok {
		if after, ok := to.(map[string]any); ok {
			return objectOperations(path, before, after, into)
		}
	}
	if before, ok := from.([]any); ok {
		if after, ok := to.([]any); ok {
			return listOperations(path, before, after, into)
		}
	}
	return append(into, operation{Op: "replace", Path: path, Value: &to})
}

func objectOperations(path string, before, after map[string]any, into []operation) []operation {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[name]; !stays {
			into = append(into, operation{Op: "remove", Path: path + "/" + escape(name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		value := after[name]
		if old, existed := before[name]; existed {
			into = operations(path+"/"+escape(name), old, value, into)
		} else {
			into = append(into, operation{Op: "add", Path: path + "/" + escape(name), Value: &value})
		}
	}
	return into
}

// listOperations keeps equal elements at the beginning and at the end, and changes those between.
func listOperations(path string, before, after []any, into []operation) []operation {
	head := 0
	for head < min(len(before), len(after)) && equal(before[head], after[head]) {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && equal(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	old, current := before[head:len(before)-tail], after[head:len(after)-tail]
	at := func(i int) string { return path + "/" + strconv.Itoa(head+i) }
	common := min(len(old), len(current))
	for i := range common {
		into = operations(at(i), old[i], current[i], into)
	}
	for i := len(old) - 1; i >= common; i-- {
		into = append(into, operation{Op: "remove", Path: at(i)})
	}
	for i := common; i < len(current); i++ {
		into = append(into, operation{Op: "add", Path: at(i), Value: &current[i]})
	}
	return into
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func get(value any, names []string) (any, bool) {
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

func set(document any, names []string, value any) any {
	if len(names) == 0 {
		return value
	}
	object, ok := document.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object[names[0]] = set(object[names[0]], names[1:], value)
	return object
}

func remove(document any, names []string) any {
	object, ok := document.(map[string]any)
	if !ok {
		return document
	}
	if len(names) == 1 {
		delete(object, names[0])
	} else if _, exists := object[names[0]]; exists {
		object[names[0]] = remove(object[names[0]], names[1:])
	}
	return object
}
