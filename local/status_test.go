package local

import (
	"testing"
	"time"
)

func TestIsOf(t *testing.T) {
	started := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		written time.Duration // since the start
		want    bool
	}{
		"by this plane":           {4 * time.Second, true},
		"at once":                 {0, true},
		"by a clock that is late": {-4 * time.Millisecond, true},
		"by the one before":       {-time.Second, false},
	} {
		if got := isOf(started.Add(c.written), started); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
