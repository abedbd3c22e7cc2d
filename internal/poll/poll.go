// Package poll waits for something to become true by asking again and again.
package poll

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// pause is the time between two questions.
	pause = 250 * time.Millisecond
	// maxFailures is how many questions in a row may fail. The management plane may restart meanwhile, so some failures
	// are normal.
	maxFailures = 40
)

// Until calls done at once and then four times a second. It returns done's error when done returns true, done's last
// error when done fails forty times in a row, and ctx's error when ctx ends. An error that makes waiting pointless
// comes with true.
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
