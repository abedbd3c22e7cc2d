// Package patch writes the difference between two states of an object as one merge patch, or nothing if they are equal.
//
// Writing only differences leaves the fields of others alone (contract rule IM-56). Writing a whole status, including
// conditions, in one patch makes changes that belong together visible at the same time (IC-51 and IM-53). A locked
// patch fails with a conflict if the object has changed since it was read.
package patch

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lock says whether a patch requires that the object is unchanged since it was read.
type Lock bool

// Locks.
const (
	// Unlocked is for patches that set fields that nobody else writes.
	Unlocked Lock = false
	// Locked makes the patch fail with a conflict if the object changed in between. Use it for lists, and for decisions
	// based on the object.
	Locked Lock = true
)

// Object writes the differences outside of status. The API server's answer replaces the content of the parameter after,
// including its status.
func Object(ctx context.Context, c client.Client, before, after client.Object, lock Lock) error {
	patch, changed, err := diff(before, after, lock)
	if err != nil || !changed {
		return err
	}
	return c.Patch(ctx, after, patch)
}

// Status writes the differences in status. The API server's answer replaces the content of the parameter after.
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
