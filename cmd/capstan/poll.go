package main

import (
	"context"

	polling "github.com/capstan-dev/capstan/internal/poll"
)

// poll is [polling.Until].
func poll(ctx context.Context, done func() (bool, error)) error { return polling.Until(ctx, done) }
