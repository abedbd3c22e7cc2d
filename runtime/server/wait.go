package server

import (
	"fmt"
	"math"
	"time"
)

// Wait returns the error with which a handler blocks (RX-23). The caller holds what it was about to do, and asks again
// after about this time, rounded up to whole seconds and at least one. People read the reason in the object's
// conditions: say what is missing and what to do. Hooks that can't block answer with a Failure that says so (LH-03).
func Wait(after time.Duration, reason string) error {
	seconds := min(max(math.Ceil(after.Seconds()), 1), math.MaxInt32)
	return &waitError{seconds: int32(seconds), reason: reason}
}

type waitError struct {
	seconds int32
	reason  string
}

func (e *waitError) Error() string { return fmt.Sprintf("wait %ds: %s", e.seconds, e.reason) }
