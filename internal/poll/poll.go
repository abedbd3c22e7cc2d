// Package poll waits for a condition by checking it repeatedly.
package poll

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// pause is the time between two checks.
	pause = 250 * time.Millisecond
	// maxFailures is how many checks in a row may fail. Some failures are normal, because the management plane may
	// restart.
	maxFailures = 40
)

// Until calls the function done immediately and then four times a second. It returns the function's error when the
// function returns true, the function's last error after forty failures in a row, and ctx's error when ctx is done. To
// stop waiting early, the function returns true with an error.
func Until(ctx context.Context, done func() (bool, error)) error {
	failures := 0
	return wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		ok, err := done()
		switch {
		case ok:
			return true, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil:
			failures = 0
			return false, nil
		}
		if failures++; failures >= maxFailures {
			return false, err
		}
		return false, nil
	})
}
