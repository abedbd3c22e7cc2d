// Package failure sets condition Reconciled on an object whose reconciles (called passes) fail, with the failed step,
// the error and what to do.
//
// Writing a status starts another pass at once. If the message changed with each pass while the cause stayed, the
// controller would write forever. So Streaks waits until a failure has persisted for step.Settle, keeps a message that
// would change only in numbers, and limits how often one message replaces another.
package failure

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// replaceAfter is how long a message stays before another error of the same streak may replace it.
const replaceAfter = 10 * time.Second

// Streaks records for each object since when its passes have been failing. The zero value is ready to use.
type Streaks struct {
	mu  sync.Mutex
	all map[types.NamespacedName]streak
}

// streak is a run of consecutive failed passes.
type streak struct {
	since time.Time // the first failure
	shown time.Time // the last change of the message by this process
}

// Judge records the result of a pass over an object. It returns the condition Reconciled that the object should have,
// or nil if it should have none. It reports false if the status must not be written now: the error is a conflict, the
// context was canceled or timed out, or the passes have failed for less than step.Settle. Many errors go away within
// that time.
func (s *Streaks) Judge(clock clock.PassiveClock, object Object, err error) (*metav1.Condition, bool) {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	switch {
	case err == nil:
		s.Forget(key)
		return nil, true
	case passing(err):
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	row, failing := s.all[key]
	if !failing {
		row.since = now
	}
	shows := conditions.Get(object, infrav1.ReconciledCondition)
	wants := condition(err)
	switch {
	case now.Sub(row.since) < step.Settle:
		s.set(key, row)
		return nil, false
	case shows == nil, !alike(shows, wants) && now.Sub(row.shown) >= replaceAfter:
		row.shown = now
		s.set(key, row)
		return wants, true
	default:
		s.set(key, row)
		return &metav1.Condition{Type: shows.Type, Status: shows.Status, Reason: shows.Reason, Message: shows.Message}, true
	}
}

// Forget ends the streak of an object that works or no longer exists.
func (s *Streaks) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

func (s *Streaks) set(key types.NamespacedName, row streak) {
	if s.all == nil {
		s.all = map[types.NamespacedName]streak{}
	}
	s.all[key] = row
}

// Object has a name and conditions.
type Object interface {
	metav1.Object
	conditions.Setter
}

// Set applies the condition that Judge returned to the object.
func Set(object Object, reconciled *metav1.Condition) {
	switch {
	case reconciled != nil:
		conditions.Set(object, *reconciled)
	case conditions.Get(object, infrav1.ReconciledCondition) != nil:
		conditions.Delete(object, infrav1.ReconciledCondition)
	}
}

// passing reports whether an error is part of normal operation: somebody changed the object in between, or the context
// ended.
func passing(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func condition(err error) *metav1.Condition {
	reason, action := infrav1.StepFailedReason, "the controller retries; if this persists, remove the cause named here"
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		reason = infrav1.AccessDeniedReason
		action = "grant the controller this right, or change the policy that denies it; the controller retries"
	}
	return &metav1.Condition{
		Type: infrav1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: reason, Message: Text(err) + "; " + action,
	}
}
