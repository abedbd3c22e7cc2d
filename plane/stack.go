//go:build linux

package plane

import (
	"context"
	"errors"
	"fmt"
)

// stack runs parts that depend on those started before them. It stops them in the opposite order, each part only once
// all parts that were started after it are gone.
type stack struct {
	parts []part
	// failed receives the error of the first part that stopped without being asked to.
	failed chan error
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan error
}

func newStack() *stack { return &stack{failed: make(chan error, 1)} }

// start runs a part until it stops by itself or the stack stops it. The part's context is independent of its starter's,
// so the part keeps running until its turn to stop.
func (s *stack) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := part{name: name, cancel: cancel, done: make(chan error, 1)}
	s.parts = append(s.parts, p)
	go func() {
		err := run(ctx)
		if ctx.Err() == nil {
			failure := err
			if failure == nil {
				failure = errors.New("it exited by itself")
			}
			select {
			case s.failed <- fmt.Errorf("%s: %w", name, failure):
			default:
			}
			err = nil // already reported
		}
		p.done <- err
	}()
}

// end stops all parts, last first, and returns the errors of parts that failed meanwhile.
func (s *stack) end() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		p.cancel()
		if err := <-p.done; err != nil {
			errs = append(errs, fmt.Errorf("ending %s: %w", p.name, err))
		}
	}
	s.parts = nil
	return errors.Join(errs...)
}
