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

// FieldManager is the name under which add-ons are written.
const FieldManager = "capstan-add-ons"

const (
	// establishedWithin bounds the wait for a definition to be served.
	establishedWithin = 10 * time.Second
	// servedWithin bounds the wait for objects of a new kind to be taken.
	servedWithin = 3 * time.Second
	// pause between two looks at it.
	pause = 100 * time.Millisecond
	// noteWithin is left for the last write of the inventory, which is made also when the time for everything else is
	// over: what was applied is known then.
	noteWithin = 1500 * time.Millisecond
)

// Result says what was done.
type Result struct {
	// Applied is how many objects the cluster has now.
	Applied int
	// Removed were applied before, and are gone.
	Removed []Ref
	// Left were applied before, are not wanted any more, and stay: they hold what others put there, were there before, or
	// have been made again.
	Left []Ref
	// Drift is what had been changed since it was applied.
	Drift []Drift
	// Unseen is how many objects were applied earlier and not compared, because the time was over.
	Unseen int
}

// Drift is an object that was not as it had been applied.
type Drift struct {
	Ref Ref
	// What is "changed", "missing" or "made again".
	What string
}

// Apply makes the cluster have the objects, and not those of before that are no longer among them. It can be repeated;
// an error leaves what is done done. What is new or has changed comes first, so that each call gets further, however
// little time it has; what is as it was wanted last time is then looked at for drift.
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
	// First the intent: whatever happens from here on, the inventory has it.
	for i := range objects {
		if inv.find(objects[i].Ref) >= 0 {
			continue
		}
		there, err := read(ctx, c, objects[i].Content)
		if err != nil {
			return result, err
		}
		if at := inv.known(there); at >= 0 {
			// The same object under another name: its namespace was left out, or is given now.
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
	// Also if something new is refused: what it needs may be among what has drifted.
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

// split gives the objects that were not applied yet as they are wanted now, after the namespaces and definitions that
// they may need, and the others.
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

// wantedAlso tells whether an object of this name is among those that are wanted.
func wantedAlso(objects []Object, ref Ref) bool {
	return slices.ContainsFunc(objects, func(o Object) bool { return o.Ref.same() == ref.same() })
}

func twice(o *Object, other Ref) error {
	return fmt.Errorf("%s of %s is in the add-ons twice, also as %s: give it its namespace, or none if its kind has none",
		o.Ref, o.Source, other)
}

// apply writes one object, and says how it differed from what was applied last, and whether it is foreign: somebody
// else has made it. A dry run changes nothing.
func apply(ctx context.Context, c client.Client, o *Object, known *entry,
	dryRun bool) (drift string, after *unstructured.Unstructured, foreign bool, err error) {
	before, err := read(ctx, c, o.Content)
	if err != nil {
		return "", nil, false, err
	}
	// The uid of what was applied is not known if the process ended, or the answer was lost, in that moment.
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
		// A kind that is new is served a moment after its definition says so.
		if unknown := apierrors.IsNotFound(err) || meta.IsNoMatchError(err); !unknown || dryRun ||
			time.Since(start) > servedWithin {
			return "", nil, false, err
		}
		if backoff.Sleep(ctx, pause) != nil {
			return "", nil, false, err
		}
	}
	if known.UID == "" || known.Hash != o.Hash {
		return "", after, foreign, nil // another content: differences are wanted
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

// wanted gives an object without what an API server and controllers write.
func wanted(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	unstructured.RemoveNestedField(o.Object, "status")
	return o.Object
}

// read gives an object as it is, nil if there is none or its kind is not known yet.
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

// place puts an object that needs a namespace and names none where kubectl would.
func place(c client.Client, o *unstructured.Unstructured) {
	if o.GetNamespace() != "" {
		return
	}
	// A kind that is not known yet will be when it is applied.
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

// prune removes what is in the inventory and not among the objects, what was applied last first.
func prune(ctx context.Context, c client.Client, inv *inventory, objects []Object, result *Result) error {
	for i := len(inv.entries) - 1; i >= 0; i-- {
		e := inv.entries[i]
		if wantedAlso(objects, e.Ref) {
			continue
		}
		removed, err := remove(ctx, c, e)
		if err != nil {
			return fmt.Errorf("removing %s, which is in no add-on any more: %w", e.Ref, err)
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

// remove deletes what is ours alone.
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
	// Without a uid it was about to be applied when the process ended: it is ours if it was.
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

// Inspect says what is not as it was applied, and changes nothing.
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

// Outstanding gives the objects that were not applied yet as they are wanted now, and those of before that were not
// removed yet.
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
