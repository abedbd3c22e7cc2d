package local

import (
	"testing"
	"time"
)

func TestIsOf(t *testing.T) {
	started := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		written time.Duration // relative to the plane's start
		want    bool
	}{
		"written by this plane":        {4 * time.Second, true},
		"written at the start":         {0, true},
		"written by a clock that lags": {-4 * time.Millisecond, true},
		"written by the plane before":  {-time.Second, false},
	} {
		if got := isOf(started.Add(c.written), started); got != c.want {
			t.Errorf("%s: isOf returned %t", name, got)
		}
	}
}
