package client

import (
	"sync"
	"time"
)

// CircuitState says whether an extension is called.
type CircuitState string

// States of a circuit.
const (
	// CircuitClosed: the extension is called.
	CircuitClosed CircuitState = "Closed"
	// CircuitOpen: its last calls failed, and it is not called for a while.
	CircuitOpen CircuitState = "Open"
	// CircuitProbing: the pause is over, and one call finds out whether the extension works again.
	CircuitProbing CircuitState = "Probing"
)

const (
	// patience is how many consecutive calls must fail before an extension is paused.
	patience = 5
	// firstPause is the length of the first pause; each further failure doubles it.
	firstPause = time.Second
)

// pauseAfter returns how long an extension is paused after this many consecutive failures. The first few may be bad
// luck and cause no pause; from then on each failure doubles the pause, up to the given longest pause.
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

// circuit keeps calls away from an extension that does not work, so that reconciles do not waste time on it and it can
// recover. Each extension has its own circuit. The zero value is closed.
type circuit struct {
	longest time.Duration

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	probing  bool
	last     error
}

// health is what a call reveals about the extension.
type health int

const (
	works   health = iota // it answered
	fails                 // it did not answer, or answered incorrectly
	unclear               // the call ended for a reason that says nothing about it
)

// enter asks for permission to make a call. If it returns nil, the caller must call leave; otherwise it returns the
// error of the last failure.
func (c *circuit) enter(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failures < patience:
		return nil
	case now.Before(c.until) || c.probing:
		return &failure{kind: notAsked, cause: c.last}
	}
	c.probing = true
	return nil
}

// leave records the result of a call. It returns true if the extension works again after a pause.
func (c *circuit) leave(now time.Time, says health, err error) (recovered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch says {
	case works:
		recovered = c.failures >= patience
		c.failures, c.probing, c.last = 0, false, nil
	case fails:
		// Calls that were running when the circuit opened belong to the same outage and do not prolong it.
		if c.failures >= patience && !c.probing {
			return false
		}
		c.failures++
		c.probing, c.last = false, err
		c.until = now.Add(pauseAfter(c.failures, c.longest))
	case unclear:
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
