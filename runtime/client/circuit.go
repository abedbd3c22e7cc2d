package client

import (
	"errors"
	"sync"
	"time"
)

// ErrNotAsked matches the errors of calls that were not made, because the last ones to the same extension failed. The text of such an error is that
// of the last failure, so that conditions do not change with every attempt.
var ErrNotAsked = errors.New("the extension was not asked, because its last calls failed")

// CircuitState tells whether an extension is asked.
type CircuitState string

// States of a circuit.
const (
	// CircuitClosed: it is asked.
	CircuitClosed CircuitState = "Closed"
	// CircuitOpen: its last calls failed, and it is left alone for a while.
	CircuitOpen CircuitState = "Open"
	// CircuitProbing: the while is over, and one call finds out whether it works again.
	CircuitProbing CircuitState = "Probing"
)

const (
	// patience is how many calls in a row may fail before an extension is left alone.
	patience = 5
	// firstPause is for how long it is left alone then; each further failure doubles it.
	firstPause = time.Second
)

// pauseAfter gives for how long an extension is left alone after so many failures in a row: not at all as long as it may be bad luck, then
// twice as long each time, up to longest.
func pauseAfter(failures int, longest time.Duration) time.Duration {
	if failures < patience {
		return 0
	}
	pause := firstPause
	for range failures - patience {
		if pause >= longest {
			break
		}
		pause *= 2
	}
	return min(pause, longest)
}

// circuit keeps calls away from an extension that does not work, so that reconciles do not spend their time with waiting for it, and so that it can
// recover. Each extension has its own. The zero value is closed.
type circuit struct {
	longest time.Duration

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	probing  bool
	last     error
}

// outcome is what a call says about the extension.
type outcome int

const (
	worked  outcome = iota // it answered
	failed                 // it did not answer, or not as a server should
	unknown                // the call ended for a reason that says nothing about it
)

// enter asks whether a call may be made now. If so, the caller must call leave; if not, the error is that of the last failure.
func (c *circuit) enter(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failures < patience:
		return nil
	case now.Before(c.until) || c.probing:
		return &notAskedError{c.last}
	}
	c.probing = true
	return nil
}

// leave tells how a call ended. It returns true if the extension works again after it was left alone.
func (c *circuit) leave(now time.Time, o outcome, err error) (recovered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o {
	case worked:
		recovered = c.failures >= patience
		c.failures, c.probing, c.last = 0, false, nil
	case failed:
		// Calls that were under way when the circuit opened belong to the same outage: they make it no longer.
		if c.failures >= patience && !c.probing {
			return false
		}
		c.failures++
		c.probing, c.last = false, err
		c.until = now.Add(pauseAfter(c.failures, c.longest))
	case unknown:
		c.probing = false // the next one is the probe
	}
	return recovered
}

func (c *circuit) state(now time.Time) CircuitState {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failures < patience:
		return CircuitClosed
	case c.probing || !now.Before(c.until):
		return CircuitProbing
	}
	return CircuitOpen
}

// notAskedError is the error of a call that was not made.
type notAskedError struct{ last error }

func (e *notAskedError) Error() string   { return e.last.Error() }
func (e *notAskedError) Unwrap() []error { return []error{ErrNotAsked, e.last} }
