package backoff

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauses(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		backoff Backoff
		ran     []time.Duration
		want    []time.Duration
	}{
		"pauses double up to Max": {
			Backoff{First: s, Max: 5 * s},
			make([]time.Duration, 5), []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s},
		},
		"pauses grow only after the free failures": {
			Backoff{First: s, Max: 5 * s, Free: 2},
			make([]time.Duration, 5), []time.Duration{s, s, s, 2 * s, 4 * s},
		},
		"a long run resets the pauses": {
			Backoff{First: s, Max: 4 * s},
			[]time.Duration{0, 0, 5 * s, 0}, []time.Duration{s, 2 * s, s, 2 * s},
		},
		"a run of exactly Max is short": {
			Backoff{First: s, Max: 4 * s},
			[]time.Duration{0, 4 * s}, []time.Duration{s, 2 * s},
		},
		"Healthy sets what counts as a long run": {
			Backoff{First: s, Max: 4 * s, Healthy: 9 * s},
			[]time.Duration{0, 5 * s, 10 * s}, []time.Duration{s, 2 * s, s},
		},
		"a First beyond Max is kept": {
			Backoff{First: 9 * s, Max: s},
			make([]time.Duration, 2), []time.Duration{9 * s, 9 * s},
		},
		"the zero value has defaults": {
			Backoff{},
			make([]time.Duration, 8), []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s},
		},
		"the zero value has a default for Healthy": {
			Backoff{},
			[]time.Duration{0, 31 * s}, []time.Duration{s / 2, s / 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []time.Duration
			for _, ran := range c.ran {
				got = append(got, c.backoff.After(ran))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestResetBeginsAnew(t *testing.T) {
	b := Backoff{First: time.Second, Max: time.Minute}
	b.Next()
	b.Next()
	b.Reset()
	if got := b.Next(); got != time.Second {
		t.Errorf("after Reset, the pause is %s", got)
	}
}

func TestSpreadStaysInItsShare(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 200 {
		b := Backoff{First: time.Second, Max: time.Second, Spread: 0.2}
		got := b.Next()
		if got < 800*time.Millisecond || got > 1200*time.Millisecond {
			t.Fatalf("the pause %s is not within the spread", got)
		}
		seen[got] = true
	}
	if len(seen) < 10 {
		t.Errorf("200 pauses have only %d different lengths", len(seen))
	}
}

func TestPausesStayPositiveAfterManyFailures(t *testing.T) {
	b := Backoff{Spread: 0.2}
	for range 10_000 {
		if got := b.Next(); got <= 0 || got > 36*time.Second {
			t.Fatalf("the pause is %s after many failures", got)
		}
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := Backoff{First: time.Hour, Max: time.Hour}
		began := time.Now()
		if b.Wait(ctx) == nil || time.Since(began) != time.Second {
			t.Errorf("Wait ended without an error or after %s, want an error after 1s", time.Since(began))
		}
	})
}
