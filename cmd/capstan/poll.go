package main

import (
	"context"
	"errors"

	polling "github.com/capstan-dev/capstan/internal/poll"
)

// poll is [polling.Until], which also stops when the dock has ended: nothing can become true then.
func poll(ctx context.Context, done func() (bool, error)) error {
	return polling.Until(ctx, func() (bool, error) {
		ok, err := done()
		return ok || errors.Is(err, errDockEnded), err
	})
}
