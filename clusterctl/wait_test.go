package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
)

// TestEndedWait: a wait that was cancelled or failed is not reported as one that took five minutes.
func TestEndedWait(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	late := func(cause error) error {
		return fmt.Errorf("deployment %q is not ready after %s: %w", "x-controller", 5*time.Minute, cause)
	}
	cases := map[string]struct {
		ctx    context.Context
		err    error
		waited time.Duration
		limit  time.Duration
		want   string // "" means no error
		not    string
	}{
		"no error": {t.Context(), nil, time.Second, 0, "", "x"},
		"another error": {
			t.Context(),
			errors.New("no such provider"),
			time.Second,
			0,
			"no such provider",
			"installed",
		},
		"the wait was cancelled": {
			stopped,
			late(context.Canceled),
			3 * time.Second,
			0,
			"stopped after 3s of waiting",
			"5m0s",
		},
		"the API server did not answer": {
			t.Context(),
			late(errors.New("connection refused")),
			3 * time.Second,
			0,
			"after 3s: connection refused",
			"5m0s",
		},
		"the default limit has passed": {
			t.Context(),
			late(context.DeadlineExceeded),
			5 * time.Minute,
			0,
			"is not ready after 5m0s",
			"stopped",
		},
		"the given limit has passed": {
			t.Context(),
			late(context.DeadlineExceeded),
			10 * time.Second,
			10 * time.Second,
			"is not ready after",
			"stopped",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := endedWait(c.ctx, c.err, c.waited, c.limit)
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if text := fmt.Sprint(err); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
				t.Errorf("got %q, want %q and not %q", text, c.want, c.not)
			}
			if early := c.waited < 5*time.Second && strings.Contains(c.err.Error(), "ready"); early &&
				hint.Of(err) == "" {
				t.Error("the error has no hint")
			}
		})
	}
}
