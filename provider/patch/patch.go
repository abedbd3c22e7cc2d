// Package patch writes the difference between two states of an object as one merge patch, and nothing if they are
// equal.
//
// Writing differences leaves the fields of others alone (IM-56). One patch for a whole status, conditions included,
// keeps together what must become visible together (IC-51, IM-53), and a locked patch fails with a conflict when it
// was computed from an object that is no longer the newest.
package patch

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lock says whether a patch demands that the object is still the one that was read.
type Lock bool

// Locks.
const (
	// Unlocked: the patch sets fields that nobody else writes.
	Unlocked Lock = false
	// Locked: the patch fails with a conflict if the object changed in between. Needed for lists and for decisions.
	Locked Lock = true
)

// Object writes what differs outside of status. after is brought up to date by the answer, status included.
func Object(ctx context.Context, c client.Client, before, after client.Object, lock Lock) error {
	patch, changed, err := diff(before, after, lock)
	if err != nil || !changed {
		return err
	}
	return c.Patch(ctx, after, patch)
}

// Status writes what differs in status. after is brought up to date by the answer.
func Status(ctx context.Context, c client.Client, before, after client.Object, lock Lock) error {
	patch, changed, err := diff(before, after, lock)
	if err != nil || !changed {
		return err
	}
	return c.Status().Patch(ctx, after, patch)
}

func diff(before, after client.Object, lock Lock) (client.Patch, bool, error) {
	plain := client.MergeFrom(before)
	data, err := plain.Data(after)
	if err != nil {
		return nil, false, fmt.Errorf("comparing two states of %s: %w", client.ObjectKeyFromObject(after), err)
	}
	if string(data) == "{}" {
		return nil, false, nil
	}
	if lock {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), true, nil
	}
	return plain, true, nil
}
