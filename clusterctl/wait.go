package clusterctl

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
)

// defaultWait is clusterctl's own limit for one provider.
const defaultWait = 5 * time.Minute

// endedWait returns err as what it is. clusterctl says of each wait that does not end well that a Deployment "is not
// ready after" the whole limit, also if somebody has stopped it, or the API server could not be asked, after a moment.
// waited is how long it took, limit what was allowed for each provider; 0 is clusterctl's default.
func endedWait(ctx context.Context, err error, waited, limit time.Duration) error {
	if limit == 0 {
		limit = defaultWait
	}
	if err == nil || waited >= limit || !strings.Contains(err.Error(), "is not ready after") {
		return err
	}
	const again = "see how they are: kubectl get deployments -A"
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return hint.Errorf(again, "stopped after %s, while it waited until the providers work: they are installed: %w",
			waited.Round(time.Second), context.Cause(ctx))
	}
	return hint.Errorf(again, "the providers are installed, but whether they work can't be seen, after %s: %w",
		waited.Round(time.Second), root(err))
}

// root returns the first cause of an error.
func root(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
