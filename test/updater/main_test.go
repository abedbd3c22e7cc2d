package main

import (
	"testing"
	"time"
)

func TestUpdateTakesItsTime(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	u := &updates{begun: map[string]time.Time{}, now: func() time.Time { return now }}
	for range 2 { // a later update of the same machine takes as long
		for _, step := range []struct {
			after time.Duration
			done  bool
		}{{0, false}, {duration - time.Second, false}, {time.Second, true}} {
			now = now.Add(step.after)
			if err := u.update("default/a"); (err == nil) != step.done {
				t.Errorf("after %s: %v, want done %t", step.after, err, step.done)
			}
		}
	}
	if err := u.update("default/b"); err == nil || len(u.begun) != 1 {
		t.Errorf("an update of another machine: %v, with %d updates in progress", err, len(u.begun))
	}
}
