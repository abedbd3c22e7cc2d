package clusterctl

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
)

// defaultWait is clusterctl's own limit per provider.
const defaultWait = 5 * time.Minute

// endedWait corrects the error of a wait. Whenever a wait fails, clusterctl reports that a Deployment "is not ready
// after" the whole limit, even if the wait was cancelled or the API server did not answer. The parameter waited is how
// long the wait really took; limit is what was allowed per provider, where 0 means clusterctl's default.
func endedWait(ctx context.Context, err error, waited, limit time.Duration) error {
	if limit == 0 {
		limit = defaultWait
	}
	if err == nil || waited >= limit || !strings.Contains(err.Error(), "is not ready after") {
		return err
	}
	const again = "to see whether they work: kubectl get deployments -A"
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return hint.Errorf(again, "stopped after %s of waiting for the providers to work; they are installed: %w",
			waited.Round(time.Second), context.Cause(ctx))
	}
	return hint.Errorf(again, "the providers are installed, but waiting for them to work failed after %s: %w",
		waited.Round(time.Second), root(err))
}

// root returns the innermost cause of an error.
func root(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
