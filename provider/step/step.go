// Package step runs a reconcile as a list of named steps.
//
// A step answers with Next (go on), Stop (nothing more to do until an event arrives) or StopFor (look again after a
// while), or with an error (try again with backoff).
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

// Answer tells how to go on after a step. The zero value is Next.
type Answer struct {
	stop  bool
	after time.Duration
}

// Next goes on with the next step.
func Next() Answer { return Answer{} }

// Stop ends this pass; a watched event starts the next one.
func Stop() Answer { return Answer{stop: true} }

// StopFor ends this pass and asks for another one after d, at the latest.
func StopFor(d time.Duration) Answer { return Answer{stop: true, after: d} }

// Stopped reports whether the answer ends the pass.
func (a Answer) Stopped() bool { return a.stop }

// Step is one named part of a reconcile over the scope S.
type Step[S any] struct {
	// Name is said in errors, for example "claim a host".
	Name string
	// When reports whether the step applies. Nil: it always does.
	When func(S) bool
	// Run does the step. It must be safe to run again at any time.
	Run func(context.Context, S) (Answer, error)
}

// Run runs the steps that apply in order until one stops or fails. The error names the step.
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

// Finish returns how a pass ended, from the result and error of its steps and the error of writing the status.
//
// An update conflict becomes a short pause: the object was changed in between, and the next pass works with the newer
// one. When a step failed, a conflict of the status changes nothing: the step's error decides when to try again.
func Finish(result reconcile.Result, err, statusErr error) (reconcile.Result, error) {
	if statusErr != nil && (err == nil || !apierrors.IsConflict(statusErr)) {
		err = errors.Join(err, fmt.Errorf("write status: %w", statusErr))
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

// Sooner returns the result that asks for another pass earlier.
func Sooner(result reconcile.Result, after time.Duration) reconcile.Result {
	if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result
}
