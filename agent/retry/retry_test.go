package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToTheBound(t *testing.T) {
	p := Pauses{First: time.Second, Most: 5 * time.Second}
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		want *= time.Second
		got := p.Next()
		if got < want*8/10 || got > want*12/10 {
			t.Errorf("pause %d is %s, want about %s", i+1, got, want)
		}
	}
	p.Reset()
	if got := p.Next(); got > 1200*time.Millisecond {
		t.Errorf("after a success the pause is %s", got)
	}
}

func TestTheZeroValueIsBounded(t *testing.T) {
	var p Pauses
	for range 100 {
		if got := p.Next(); got <= 0 || got > 36*time.Second {
			t.Fatalf("pause %s", got)
		}
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := Pauses{First: time.Hour, Most: time.Hour}
		began := time.Now()
		if p.Wait(ctx) == nil || time.Since(began) != time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
	})
}
