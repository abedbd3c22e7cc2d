package topology

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
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Mutation changes matching templates. Make it with [Mutate].
type Mutation struct {
	match Match
	apply func(ctx context.Context, template []byte, input Input) ([]byte, error)
}

// Mutate makes a mutation of templates as values of their Go type. The function changes the template. Whatever it does
// not change stays as it is, including fields that the type does not have. A change of a list fails if the list's
// elements have such fields.
func Mutate[T any](match Match, change func(ctx context.Context, template *T, input Input) error) Mutation {
	if match == nil || change == nil {
		return Mutation{}
	}
	return Mutation{match: match, apply: func(ctx context.Context, raw []byte, input Input) ([]byte, error) {
		before, after := new(T), new(T)
		if err := errors.Join(json.Unmarshal(raw, before), json.Unmarshal(raw, after)); err != nil {
			return nil, fmt.Errorf("decoding a template as %T: %w", *after, err)
		}
		if err := change(ctx, after, input); err != nil {
			return nil, err
		}
		return transfer(raw, before, after)
	}}
}

// transfer applies the difference between two typed values to the document that they were decoded from.
func transfer(raw []byte, before, after any) ([]byte, error) {
	from, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding a template: %w", err)
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding a template: %w", err)
	}
	difference, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing a template before and after: %w", err)
	}
	if err := checkLists(raw, from, difference); err != nil {
		return nil, err
	}
	changed, err := jsonpatch.MergePatch(raw, difference)
	if err != nil {
		return nil, fmt.Errorf("changing a template: %w", err)
	}
	return changed, nil
}

// checkLists fails if a list that is replaced has fields that the Go type does not have: they would be lost.
func checkLists(raw, typed, difference []byte) error {
	var have, know, change any
	if err := errors.Join(json.Unmarshal(raw, &have), json.Unmarshal(typed, &know),
		json.Unmarshal(difference, &change)); err != nil {
		return fmt.Errorf("comparing a template before and after: %w", err)
	}
	return checkValue("", have, know, change)
}

func checkValue(path string, have, know, change any) error {
	if _, replaced := change.([]any); replaced {
		if old, isList := have.([]any); isList && !knows(know, old) {
			return fmt.Errorf("the list %s has fields that the template's Go type does not know: changing it would drop them",
				strings.TrimPrefix(path, "."))
		}
		return nil
	}
	changes, ok := change.(map[string]any)
	if !ok {
		return nil
	}
	haveObject, _ := have.(map[string]any)
	knowObject, _ := know.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if err := checkValue(path+"."+name, haveObject[name], knowObject[name], changes[name]); err != nil {
			return err
		}
	}
	return nil
}

// knows reports whether a value is contained in another one, which may have more fields.
func knows(more, value any) bool {
	switch one := value.(type) {
	case map[string]any:
		other, ok := more.(map[string]any)
		for name, member := range one {
			ok = ok && knows(other[name], member)
		}
		return ok
	case []any:
		other, ok := more.([]any)
		return ok && slices.EqualFunc(other, one, knows)
	}
	return reflect.DeepEqual(more, value)
}

// GeneratePatches combines mutations into a handler's function (UH-01 to UH-03). For each template, the matching
// mutations are applied in order, each to the result of the one before it.
func GeneratePatches(mutations ...Mutation) server.Func[runtimehooksv1.GeneratePatchesRequest,
	runtimehooksv1.GeneratePatchesResponse] {
	for _, m := range mutations {
		if m.apply == nil {
			return nil // which server.New reports
		}
	}
	return func(ctx context.Context, request *runtimehooksv1.GeneratePatchesRequest,
		response *runtimehooksv1.GeneratePatchesResponse) error {
		for i := range request.Items {
			item := &request.Items[i]
			p, err := patchOf(ctx, mutations, item, Input{
				Holder: item.HolderReference, Variables: merged(request.Variables, item.Variables), Settings: request.Settings,
			})
			if err != nil {
				return fmt.Errorf("patching the template of %s %s (%s): %w", item.HolderReference.Kind, item.HolderReference.Name,
					item.HolderReference.FieldPath, err)
			}
			if p.IsDefined() {
				response.Items = append(response.Items, runtimehooksv1.GeneratePatchesResponseItem{
					UID: item.UID, PatchType: p.PatchType, Patch: p.Patch,
				})
			}
		}
		return nil
	}
}

func patchOf(ctx context.Context, mutations []Mutation, item *runtimehooksv1.GeneratePatchesRequestItem,
	input Input) (runtimehooksv1.Patch, error) {
	none := runtimehooksv1.Patch{}
	template, err := typeOf(item.Object.Raw)
	if err != nil {
		return none, err
	}
	changed := item.Object.Raw
	for _, m := range mutations {
		if !m.match(template, item.HolderReference) {
			continue
		}
		if changed, err = m.apply(ctx, changed, input); err != nil {
			return none, err
		}
	}
	if err := checkPlaces(item.Object.Raw, changed); err != nil {
		return none, err
	}
	return patch.Diff(item.Object.Raw, changed)
}

// allowed lists the paths where patches may change templates (UH-02).
var allowed = []string{"metadata.labels", "metadata.annotations", "spec.template.spec", "spec.template.metadata"}

// checkPlaces checks that nothing changed elsewhere: Cluster API would silently drop such a change.
func checkPlaces(before, after []byte) error {
	same, err := patch.SameOutside(before, after, allowed...)
	if err == nil && !same {
		err = errors.New("it changes what patches must not change: they are for " + strings.Join(allowed, ", ") + " (UH-02)")
	}
	return err
}
