package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// FieldManager is the field manager that owns add-ons.
const FieldManager = "capstan-add-ons"

const (
	// establishedWithin limits the wait for a definition to be served.
	establishedWithin = 10 * time.Second
	// servedWithin limits the retries for objects of a new kind.
	servedWithin = 3 * time.Second
	// pause is the time between two checks.
	pause = 100 * time.Millisecond
	// noteWithin is reserved for the last write of the inventory. The write happens even after the deadline for
	// everything else, because it records what was applied.
	noteWithin = 1500 * time.Millisecond
)

// Result says what Apply did.
type Result struct {
	// Applied is the number of objects known to be in the cluster.
	Applied int
	// Removed lists the objects that were applied earlier and are gone now.
	Removed []Ref
	// Left lists the objects that were applied earlier and are no longer wanted, but stay: they contain data of others,
	// existed before, or were recreated by somebody else.
	Left []Ref
	// Drift lists the objects that had changed since they were applied.
	Drift []Drift
	// Unseen is the number of objects applied earlier that were not compared for lack of time.
	Unseen int
}

// Drift describes an object that differs from what was applied.
type Drift struct {
	Ref Ref
	// What is "changed", "missing" or "made again".
	What string
}

// Apply applies objects to the cluster. It removes objects that were applied earlier and are no longer among them.
// Apply can be repeated; after an error, what it has done so far stays done. New and changed objects come first, so
// that each call makes progress however short its deadline. Apply then checks unchanged objects for drift.
func Apply(ctx context.Context, c client.Client, objects []Object) (result Result, err error) {
	outer := ctx
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(noteWithin, time.Until(deadline)/5)))
		defer cancel()
	}
	inv, err := readInventory(ctx, c)
	if err != nil || len(objects) == 0 && len(inv.entries) == 0 {
		return result, err
	}
	// Record the intent first: whatever happens later, the inventory lists the object.
	for i := range objects {
		if inv.find(objects[i].Ref) >= 0 {
			continue
		}
		there, err := read(ctx, c, objects[i].Content)
		if err != nil {
			return result, err
		}
		if at := inv.known(there); at >= 0 {
			// The inventory has this object under another reference: its namespace was omitted before, or is omitted
			// now.
			if wantedAlso(objects, inv.entries[at].Ref) {
				return result, twice(&objects[i], inv.entries[at].Ref)
			}
			inv.entries[at].Ref, inv.entries[at].Hash = objects[i].Ref, ""
			continue
		}
		inv.entries = append(inv.entries, entry{Ref: objects[i].Ref, Adopted: there != nil})
	}
	if err := inv.write(ctx, c); err != nil {
		return result, err
	}
	outstanding, rest := split(inv, objects)
	if err = applyAll(ctx, c, inv, outstanding, &result); err == nil {
		err = prune(ctx, c, inv, objects, &result)
	}
	// Do this even if a new object was refused: it may need something that has drifted.
	seen := applyAll(ctx, c, inv, rest, &result)
	if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && outer.Err() == nil {
		result.Unseen, seen = len(objects)-result.Applied, nil
	}
	if ctx.Err() == nil || err == nil {
		err = errors.Join(err, seen)
	}
	noted, cancel := context.WithTimeout(context.WithoutCancel(outer), noteWithin)
	defer cancel()
	return result, errors.Join(err, inv.write(noted, c))
}

// split separates the objects that were not yet applied in their current form, plus all namespaces and definitions that
// they may need, from the rest.
func split(inv *inventory, objects []Object) (outstanding, rest []Object) {
	for _, o := range objects {
		if o.phase > 1 && inv.has(&o) {
			rest = append(rest, o)
		} else {
			outstanding = append(outstanding, o)
		}
	}
	return outstanding, rest
}

func applyAll(ctx context.Context, c client.Client, inv *inventory, objects []Object, result *Result) error {
	phase := 0
	for i := range objects {
		o := &objects[i]
		if phase == 1 && o.phase > 1 {
			if err := established(ctx, c, objects); err != nil {
				return err
			}
		}
		phase = o.phase
		known := &inv.entries[inv.find(o.Ref)]
		drift, after, foreign, err := apply(ctx, c, o, known, false)
		if err != nil {
			return fmt.Errorf("applying %s of %s: %w", o.Ref, o.Source, err)
		}
		if at := inv.known(after); at >= 0 && inv.entries[at].Ref.same() != o.Ref.same() &&
			wantedAlso(objects, inv.entries[at].Ref) {
			return twice(o, inv.entries[at].Ref)
		}
		known.Adopted = known.Adopted || foreign
		if drift != "" {
			result.Drift = append(result.Drift, Drift{Ref: o.Ref, What: drift})
		}
		known.Ref, known.UID, known.Hash = o.Ref, after.GetUID(), o.Hash
		result.Applied++
	}
	if phase == 1 {
		return established(ctx, c, objects)
	}
	return nil
}

// wantedAlso reports whether an object with this reference is among the wanted ones.
func wantedAlso(objects []Object, ref Ref) bool {
	return slices.ContainsFunc(objects, func(o Object) bool { return o.Ref.same() == ref.same() })
}

func twice(o *Object, other Ref) error {
	return fmt.Errorf("%s of %s is in the add-ons twice, also as %s: "+
		"keep one of them, with a namespace if its kind has namespaces", o.Ref, o.Source, other)
}

// apply writes one object. It returns how the object differed from what was applied last, and whether it is foreign,
// that is, created by somebody else. A dry run changes nothing.
func apply(ctx context.Context, c client.Client, o *Object, known *entry,
	dryRun bool) (drift string, after *unstructured.Unstructured, foreign bool, err error) {
	before, err := read(ctx, c, o.Content)
	if err != nil {
		return "", nil, false, err
	}
	// The UID is unknown if the process died, or the answer was lost, at the moment of the first apply.
	foreign = before != nil && before.GetUID() != known.UID && !isApplied(before)
	options := []client.ApplyOption{client.FieldOwner(FieldManager), client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	for start := time.Now(); ; {
		after = o.Content.DeepCopy()
		place(c, after)
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(after), options...)
		if err == nil {
			break
		}
		// A new kind is served shortly after its definition is established.
		if unknown := apierrors.IsNotFound(err) || meta.IsNoMatchError(err); !unknown || dryRun ||
			time.Since(start) > servedWithin {
			return "", nil, false, err
		}
		if backoff.Sleep(ctx, pause) != nil {
			return "", nil, false, err
		}
	}
	if known.UID == "" || known.Hash != o.Hash {
		return "", after, foreign, nil // the content has changed, so differences are expected
	}
	switch {
	case before == nil:
		drift = "missing"
	case before.GetUID() != known.UID:
		drift = "made again"
	case !equality.Semantic.DeepEqual(wanted(before), wanted(after)):
		drift = "changed"
	}
	return drift, after, foreign, nil
}

// wanted returns an object without the fields that an API server and controllers write.
func wanted(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	unstructured.RemoveNestedField(o.Object, "status")
	return o.Object
}

// read returns the current object, or nil if it does not exist or its kind is not known yet.
func read(ctx context.Context, c client.Client, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(like.GroupVersionKind())
	there.SetNamespace(like.GetNamespace())
	there.SetName(like.GetName())
	place(c, there)
	err := c.Get(ctx, client.ObjectKeyFromObject(there), there)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", like.GetKind(), like.GetName(), err)
	}
	return there, nil
}

// place sets the namespace of a namespaced object that has none, as kubectl would.
func place(c client.Client, o *unstructured.Unstructured) {
	if o.GetNamespace() != "" {
		return
	}
	// A kind that is not known yet will be known when the object is applied.
	if namespaced, err := c.IsObjectNamespaced(o); err == nil && namespaced {
		o.SetNamespace("default")
	}
}

// established waits until all definitions among the objects are served.
func established(ctx context.Context, c client.Client, objects []Object) error {
	ctx, cancel := context.WithTimeout(ctx, establishedWithin)
	defer cancel()
	for i := range objects {
		for objects[i].Ref.isCRD() {
			crd, err := read(ctx, c, objects[i].Content)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if crd != nil && isEstablished(crd) {
				break
			}
			if backoff.Sleep(ctx, pause) != nil {
				return fmt.Errorf("%s of %s is not served yet: its condition Established is not True",
					objects[i].Ref, objects[i].Source)
			}
		}
	}
	return nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
}

// prune removes objects that are in the inventory but no longer wanted, most recently applied first.
func prune(ctx context.Context, c client.Client, inv *inventory, objects []Object, result *Result) error {
	for i := len(inv.entries) - 1; i >= 0; i-- {
		e := inv.entries[i]
		if wantedAlso(objects, e.Ref) {
			continue
		}
		removed, err := remove(ctx, c, e)
		if err != nil {
			return fmt.Errorf("removing %s, which is no longer in any add-on: %w", e.Ref, err)
		}
		if removed {
			result.Removed = append(result.Removed, e.Ref)
		} else {
			result.Left = append(result.Left, e.Ref)
		}
		inv.entries = slices.Delete(inv.entries, i, i+1)
	}
	return nil
}

// remove deletes an object if it is exclusively ours.
func remove(ctx context.Context, c client.Client, e entry) (removed bool, err error) {
	if e.Adopted || e.isNamespace() || e.isCRD() {
		return false, nil
	}
	like := &unstructured.Unstructured{}
	like.SetAPIVersion(metav1.GroupVersion{Group: e.Group, Version: e.Version}.String())
	like.SetKind(e.Kind)
	like.SetNamespace(e.Namespace)
	like.SetName(e.Name)
	there, err := read(ctx, c, like)
	if err != nil || there == nil {
		return err == nil, err
	}
	// Without a UID, the object was about to be applied when the process died. It is ours if that succeeded.
	if uid := there.GetUID(); e.UID != uid && (e.UID != "" || !isApplied(there)) {
		return false, nil
	}
	uid := there.GetUID()
	err = c.Delete(ctx, there, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	return err == nil || apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

func isApplied(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// Inspect returns the objects that differ from what was applied. It changes nothing.
func Inspect(ctx context.Context, c client.Client, objects []Object) ([]Drift, error) {
	inv, err := readInventory(ctx, c)
	if err != nil {
		return nil, err
	}
	var found []Drift
	for i := range objects {
		if !inv.has(&objects[i]) {
			continue
		}
		drift, _, _, err := apply(ctx, c, &objects[i], &inv.entries[inv.find(objects[i].Ref)], true)
		if err != nil {
			return nil, fmt.Errorf("comparing %s of %s: %w", objects[i].Ref, objects[i].Source, err)
		}
		if drift != "" {
			found = append(found, Drift{Ref: objects[i].Ref, What: drift})
		}
	}
	return found, nil
}

// Outstanding returns the objects that were not yet applied in their current form, and those applied earlier that
// remain to be removed.
func Outstanding(ctx context.Context, c client.Reader, objects []Object) (missing, superfluous []Ref, err error) {
	inv, err := readInventory(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	for i := range objects {
		if !inv.has(&objects[i]) {
			missing = append(missing, objects[i].Ref)
		}
	}
	for _, e := range inv.entries {
		if !wantedAlso(objects, e.Ref) {
			superfluous = append(superfluous, e.Ref)
		}
	}
	return missing, superfluous, nil
}
