// Package step runs a reconcile, called a pass, as a list of named steps.
//
// A step returns Next (continue), Stop (nothing to do until an event arrives), StopFor (check again after a while), or
// an error (try again with backoff).
package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictPause is how long Finish waits after an update conflict: long enough for the cache to see the newer object.
const conflictPause = 20 * time.Millisecond

// Answer says how to continue after a step. The zero value is Next.
type Answer struct {
	stop  bool
	after time.Duration
}

// Next continues with the next step.
func Next() Answer { return Answer{} }

// Stop ends this pass; a watched event starts the next one.
func Stop() Answer { return Answer{stop: true} }

// StopFor ends this pass and requests another one after d at the latest.
func StopFor(d time.Duration) Answer { return Answer{stop: true, after: d} }

// Stopped reports whether the answer ends the pass.
func (a Answer) Stopped() bool { return a.stop }

// Step is one named part of a reconcile over the scope S.
type Step[S any] struct {
	// Name appears in errors, for example "claim a host".
	Name string
	// When reports whether the step applies. If nil, it always does.
	When func(S) bool
	// Run performs the step. It must be safe to repeat at any time.
	Run func(context.Context, S) (Answer, error)
}

// Run runs, in order, the steps that apply, until one of them stops or fails. The error names the step.
func Run[S any](ctx context.Context, scope S, steps []Step[S]) (reconcile.Result, error) {
	for _, s := range steps {
		if s.When != nil && !s.When(scope) {
			continue
		}
		answer, err := s.Run(ctx, scope)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("%s: %w", s.Name, err)
		}
		if answer.stop {
			return reconcile.Result{RequeueAfter: answer.after}, nil
		}
	}
	return reconcile.Result{}, nil
}

// Finish returns the result of a pass, from the result and error of its steps and the error of writing the status.
//
// An update conflict becomes a short pause, because the object has changed and the next pass uses its newer state. If a
// step failed, a conflict of the status write is ignored: the step's error decides when to try again.
func Finish(result reconcile.Result, err, statusErr error) (reconcile.Result, error) {
	if statusErr != nil && (err == nil || !apierrors.IsConflict(statusErr)) {
		err = errors.Join(err, fmt.Errorf("writing status: %w", statusErr))
	}
	switch {
	case err == nil:
		return result, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	default:
		return reconcile.Result{}, err
	}
}

// Sooner returns the result, changed so that the next pass starts within the given time. If the time is 0, Sooner
// changes nothing.
func Sooner(result reconcile.Result, after time.Duration) reconcile.Result {
	if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result
}
