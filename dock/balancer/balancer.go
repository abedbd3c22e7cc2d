// Package balancer forwards the TCP connections of a listener to several backends in turn, and skips backends that do
// not accept. A relay is a balancer with one backend.
package balancer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Limits of one balancer.
const (
	// MaxConns is the number of concurrent connections. Further ones are closed at once.
	MaxConns = 4096
	// DialTimeout is how long a backend may take to accept.
	DialTimeout = time.Second

	firstProbe = 100 * time.Millisecond // after a backend went down
	lastProbe  = 2 * time.Second        // delays double up to this
)

// Options configure a listener that other computers can reach. The zero value suits all other listeners.
type Options struct {
	// PerSource bounds the concurrent connections of one source address; 0 means that only MaxConns bounds them.
	PerSource int
	// Announce starts each connection to a backend with a PROXY protocol version 1 header.
	Announce bool
}

// Balancer serves one listener until Close.
type Balancer struct {
	options  Options
	listener net.Listener
	dialer   net.Dialer
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	slots    chan struct{}

	mu       sync.Mutex
	backends []*backend
	next     int
	closed   bool
	sources  map[netip.Addr]int // connections by source address, if Options.PerSource bounds them
}

// backend is one backend address. down means that the last dial failed and a probe is under way.
type backend struct {
	addr   string
	ctx    context.Context // ends when the backend is removed
	cancel context.CancelFunc
	down   atomic.Bool
}

// Serve takes over l and forwards its connections to backends ("address:port"). SetBackends replaces the backends.
func Serve(l net.Listener, backends ...string) *Balancer { return ServeWith(Options{}, l, backends...) }

// ServeWith is Serve with options.
func ServeWith(o Options, l net.Listener, backends ...string) *Balancer {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Balancer{
		options:  o,
		sources:  map[netip.Addr]int{},
		listener: l,
		ctx:      ctx,
		cancel:   cancel,
		slots:    make(chan struct{}, MaxConns),
		// A host that disappears sends no FIN. Notice its absence within 12 s; otherwise watches through the balancer would
		// hang.
		dialer: net.Dialer{Timeout: DialTimeout, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 6 * time.Second, Interval: 2 * time.Second, Count: 3,
		}},
	}
	b.SetBackends(backends...)
	b.running.Go(b.accept)
	return b
}

// Addr returns the listener's address.
func (b *Balancer) Addr() net.Addr { return b.listener.Addr() }

// SetBackends replaces the backends. It closes the connections to removed backends only.
func (b *Balancer) SetBackends(addrs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	var kept []*backend
	for _, addr := range addrs {
		if slices.ContainsFunc(kept, func(k *backend) bool { return k.addr == addr }) {
			continue
		}
		i := slices.IndexFunc(b.backends, func(k *backend) bool { return k.addr == addr })
		if i >= 0 {
			kept = append(kept, b.backends[i])
			continue
		}
		ctx, cancel := context.WithCancel(b.ctx)
		kept = append(kept, &backend{addr: addr, ctx: ctx, cancel: cancel})
	}
	for _, old := range b.backends {
		if !slices.Contains(kept, old) {
			old.cancel()
		}
	}
	b.backends = kept
}

// Backends returns all backends, and a separate list of those that are considered down.
func (b *Balancer) Backends() (all, down []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.backends {
		all = append(all, k.addr)
		if k.down.Load() {
			down = append(down, k.addr)
		}
	}
	return all, down
}

// Close stops accepting, closes all connections, and waits for all goroutines of the balancer to finish.
func (b *Balancer) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.listener.Close()
	b.running.Wait()
}

func (b *Balancer) accept() {
	for pause := time.Duration(0); ; {
		conn, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Most likely file descriptors or memory ran out: retry when some connections have closed.
			if pause = min(max(2*pause, 5*time.Millisecond), time.Second); backoff.Sleep(b.ctx, pause) != nil {
				return
			}
			continue
		}
		pause = 0
		select {
		case b.slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		source := sourceOf(conn)
		if !b.enter(source) {
			<-b.slots
			conn.Close()
			continue
		}
		b.running.Go(func() {
			defer func() { <-b.slots }()
			defer b.leave(source)
			b.carry(conn)
		})
	}
}

func (b *Balancer) carry(client net.Conn) {
	defer client.Close()
	server, k := b.dial()
	if server == nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(k.ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	if b.options.Announce && announce(server, client) != nil {
		return
	}
	join(client, server)
}

// dial tries each backend at most once: first those that are up, in turn, then the others, in case their state is
// stale.
func (b *Balancer) dial() (net.Conn, *backend) {
	for _, k := range b.order() {
		conn, err := b.dialer.DialContext(k.ctx, "tcp", k.addr)
		if err == nil {
			k.down.Store(false)
			return conn, k
		}
		b.markDown(k)
		if b.ctx.Err() != nil {
			break
		}
	}
	return nil, nil
}

// order returns the backends round-robin, those that are down last.
func (b *Balancer) order() []*backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return nil
	}
	b.next = (b.next + 1) % len(b.backends)
	var up, down []*backend
	for i := range b.backends {
		if k := b.backends[(b.next+i)%len(b.backends)]; k.down.Load() {
			down = append(down, k)
		} else {
			up = append(up, k)
		}
	}
	return append(up, down...)
}

// markDown probes a backend until it accepts again or is removed, so that no client has to wait for a dial timeout.
func (b *Balancer) markDown(k *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || k.ctx.Err() != nil || k.down.Swap(true) {
		return
	}
	b.running.Go(func() {
		for pause := firstProbe; backoff.Sleep(k.ctx, pause) == nil; pause = min(2*pause, lastProbe) {
			if !k.down.Load() {
				return // meanwhile a client got through
			}
			if conn, err := b.dialer.DialContext(k.ctx, "tcp", k.addr); err == nil {
				conn.Close()
				k.down.Store(false)
				return
			}
		}
	})
}
