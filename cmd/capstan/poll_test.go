package main

import (
	"errors"
	"testing"
)

// TestPollStopsWithTheDock: what waits for a dock that has ended waits for nothing.
func TestPollStopsWithTheDock(t *testing.T) {
	calls := 0
	err := poll(t.Context(), func() (bool, error) { calls++; return false, errDockEnded })
	if !errors.Is(err, errDockEnded) || calls != 1 {
		t.Errorf("%v after %d calls, want %v after 1", err, calls, errDockEnded)
	}
}
