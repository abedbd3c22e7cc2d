package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntil: a final result ends the wait, even if it is an error; other failures are tolerated for a while.
func TestUntil(t *testing.T) {
	wrong := errors.New("wrong")
	for name, c := range map[string]struct {
		answer func(call int) (bool, error)
		calls  int
		want   error
	}{
		"a success at once": {func(int) (bool, error) { return true, nil }, 1, nil},
		"a final error":     {func(int) (bool, error) { return true, wrong }, 1, wrong},
		"a success after a failure": {
			func(call int) (bool, error) { return call == 2, map[int]error{1: wrong}[call] }, 2, nil,
		},
		"only failures": {func(int) (bool, error) { return false, wrong }, maxFailures, wrong},
		"a check without an error resets the count of failures": {func(call int) (bool, error) {
			if call == maxFailures-1 {
				return false, nil
			}
			return false, wrong
		}, 2*maxFailures - 1, wrong},
		"the context ends": {func(int) (bool, error) { return false, nil }, 241, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute+pause/2)
				defer cancel()
				calls := 0
				err := Until(ctx, func() (bool, error) { calls++; return c.answer(calls) })
				if !errors.Is(err, c.want) || calls != c.calls {
					t.Errorf("got %v after %d calls, want %v after %d", err, calls, c.want, c.calls)
				}
			})
		})
	}
}

func TestUntilAsksOnceWhenTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := 0
	err := Until(ctx, func() (bool, error) { calls++; return false, nil })
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("got %v after %d calls, want context.Canceled after 1", err, calls)
	}
}
