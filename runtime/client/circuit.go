package client

import (
	"sync"
	"time"
)

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

// pauseAfter gives for how long an extension is left alone after so many failures in a row: not at all as long as it
// may be bad luck, then twice as long each time, up to longest.
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

// circuit keeps calls away from an extension that does not work, so that reconciles do not spend their time with
// waiting for it, and so that it can recover. Each extension has its own. The zero value is closed.
type circuit struct {
	longest time.Duration

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	probing  bool
	last     error
}

// health is what a call says about the extension.
type health int

const (
	works   health = iota // it answered
	fails                 // it did not answer, or not as a server should
	unclear               // the call ended for a reason that says nothing about it
)

// enter asks whether a call may be made now. If so, the caller must call leave; if not, the error is that of the last
// failure.
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

// leave learns from a call that has ended. It returns true if the extension works again after it was left alone.
func (c *circuit) leave(now time.Time, says health, err error) (recovered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch says {
	case works:
		recovered = c.failures >= patience
		c.failures, c.probing, c.last = 0, false, nil
	case fails:
		// Calls that were under way when the circuit opened belong to the same outage: they make it no longer.
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
