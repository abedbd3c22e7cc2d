//go:build linux

package inside

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/dock/balancer"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// forward is a balancer whose listener may not be available yet. It keeps trying to listen, without blocking anything
// else.
type forward struct {
	open  func() (net.Listener, error)
	limit balancer.Options

	mu       sync.Mutex
	backends []string
	run      *balancer.Balancer // nil while there is no listener
	err      error              // why there is no listener
	closed   bool

	cancel context.CancelFunc
	ended  chan struct{}
}

// Delays between tries to open a listener.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// newForward tries to listen at once. If that fails, it keeps trying in the background.
func newForward(open func() (net.Listener, error), backends ...string) *forward {
	return newForwardWith(balancer.Options{}, open, backends...)
}

// newForwardWith is newForward with the balancer's options.
func newForwardWith(o balancer.Options, open func() (net.Listener, error), backends ...string) *forward {
	ctx, cancel := context.WithCancel(context.Background())
	f := &forward{open: open, limit: o, backends: backends, cancel: cancel, ended: make(chan struct{})}
	if f.try() == nil {
		close(f.ended)
		return f
	}
	go func() {
		defer close(f.ended)
		for pause := firstRetry; backoff.Sleep(ctx, pause) == nil && f.try() != nil; pause = min(2*pause, lastRetry) {
		}
	}()
	return f
}

// try opens the listener unless it is open, and returns the reason if it can't.
func (f *forward) try() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.run != nil {
		return nil
	}
	l, err := f.open()
	if f.err = err; err == nil {
		f.run = balancer.ServeWith(f.limit, l, f.backends...)
	}
	return err
}

func (f *forward) setBackends(backends []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = backends
	if f.run != nil {
		f.run.SetBackends(backends...)
	}
}

// status returns the backends that are down, and why there is no listener.
func (f *forward) status() (down []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != nil {
		_, down = f.run.Backends()
	}
	return down, f.err
}

// close stops the balancer, and waits until the port is free and all goroutines have finished.
func (f *forward) close() {
	f.cancel()
	f.mu.Lock()
	f.closed = true
	run := f.run
	f.mu.Unlock()
	<-f.ended
	if run != nil {
		run.Close()
	}
}
