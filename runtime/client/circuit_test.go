package client

import (
	"errors"
	"testing"
	"time"
)

func TestPauseAfter(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		want     time.Duration
	}{
		"no failure": {0, 0},
		"one failure less than the circuit tolerates": {patience - 1, 0},
		"the first pause":   {patience, time.Second},
		"the second pause":  {patience + 1, 2 * time.Second},
		"the fifth pause":   {patience + 4, 16 * time.Second},
		"the longest pause": {patience + 5, 30 * time.Second},
		"the longest pause, after a billion failures": {1 << 30, 30 * time.Second},
	} {
		if got := pauseAfter(c.failures, 30*time.Second); got != c.want {
			t.Errorf("%s: after %d failures %s, want %s", name, c.failures, got, c.want)
		}
	}
}

// The states of a circuit during an outage: closed, open with growing pauses, probing, and closed again.
func TestCircuit(t *testing.T) {
	broken := errors.New("connection refused")
	start := time.Unix(1_800_000_000, 0)
	now := start
	c := &circuit{longest: 4 * time.Second}
	call := func(o health) (recovered bool, err error) {
		if err := c.enter(now); err != nil {
			return false, err
		}
		return c.leave(now, o, broken), nil
	}
	state := func(want CircuitState) {
		t.Helper()
		if got := c.state(now); got != want {
			t.Fatalf("after %s the circuit is %s, want %s", now.Sub(start), got, want)
		}
	}
	for range patience {
		state(CircuitClosed)
		if _, err := call(fails); err != nil {
			t.Fatalf("a call was held back: %v", err)
		}
	}
	for _, pause := range []time.Duration{1, 2, 4, 4} {
		state(CircuitOpen)
		_, err := call(works)
		if !errors.Is(err, ErrNotAsked) || !errors.Is(err, broken) || err.Error() != broken.Error() {
			t.Fatalf("a call that was not made gives %v", err)
		}
		now = now.Add(pause*time.Second - time.Nanosecond)
		state(CircuitOpen)
		now = now.Add(time.Nanosecond)
		state(CircuitProbing)
		if err := c.enter(now); err != nil {
			t.Fatalf("the probe was held back: %v", err)
		}
		if err := c.enter(now); !errors.Is(err, ErrNotAsked) {
			t.Fatalf("a second call during the probe: %v", err)
		}
		c.leave(now, fails, broken)
	}
	now = now.Add(4 * time.Second)
	if _, err := call(unclear); err != nil {
		t.Fatalf("the probe was held back: %v", err)
	}
	state(CircuitProbing) // the result was unclear: the next call is the probe
	if recovered, err := call(works); err != nil || !recovered {
		t.Fatalf("a call that works after the pause: recovered %t, %v", recovered, err)
	}
	state(CircuitClosed)
	if recovered, err := call(works); err != nil || recovered {
		t.Fatalf("the call after it: recovered %t, %v", recovered, err)
	}
}

// Twenty calls that were running when the extension died count as one outage, not as twenty.
func TestCallsUnderWayMakeAnOutageNoLonger(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := &circuit{longest: time.Minute}
	for range 20 {
		if err := c.enter(now); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		c.leave(now, fails, errors.New("gone"))
	}
	if err := c.enter(now.Add(firstPause)); err != nil {
		t.Errorf("after the first pause, a call was held back: %v", err)
	}
}

// An endpoint that flaps is called as long as it answers now and then.
func TestFlappingKeepsTheCircuitClosed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := &circuit{longest: time.Minute}
	for i := range 100 {
		if err := c.enter(now); err != nil {
			t.Fatalf("call %d was held back: %v", i, err)
		}
		o := fails
		if i%patience == 0 {
			o = works
		}
		c.leave(now, o, errors.New("flap"))
	}
}
