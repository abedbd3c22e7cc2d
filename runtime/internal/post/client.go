package post

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrEnded is the error of an exchange that was ended by [Call.End].
var ErrEnded = errors.New("the exchange was aborted")

// Options of a Client.
type Options struct {
	// Address to dial, as host:port. Required.
	Address string
	// Host is the value of the header of that name. Required.
	Host string
	// TLS configures how to verify the server. Required, with a ServerName.
	TLS *tls.Config
	// Idle is how many idle connections are kept. Required.
	Idle int
	// Open bounds the number of open connections; further exchanges wait. Required.
	Open int
	// IdleTimeout is how long an idle connection is kept. Required.
	IdleTimeout time.Duration
	// Dial opens a connection. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client posts to one server. Make it with [New]. All methods are safe for concurrent use.
type Client struct {
	options Options
	open    chan struct{}

	mu      sync.Mutex
	idle    []*connection // the most recently used one last
	sweeper *time.Timer   // runs while there are idle ones
	retired bool
}

// New makes a client. It opens no connection.
func New(options Options) *Client {
	trust := options.TLS.Clone()
	trust.NextProtos = []string{"http/1.1"}
	// Requests are short and written at once, so small first records would only cost time.
	trust.DynamicRecordSizingDisabled = true
	options.TLS = trust
	if options.Dial == nil {
		options.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	return &Client{options: options, open: make(chan struct{}, options.Open)}
}

// CloseIdle closes idle connections.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeIdle(time.Time{})
}

// Retire closes idle connections, and the others as soon as they are idle.
func (c *Client) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.closeIdle(time.Time{})
}

// closeIdle closes the connections last used before this time; all if it is zero.
func (c *Client) closeIdle(before time.Time) {
	kept := c.idle[:0]
	for _, conn := range c.idle {
		if !before.IsZero() && !conn.lastUse.Before(before) {
			kept = append(kept, conn)
			continue
		}
		conn.close()
	}
	clear(c.idle[len(kept):])
	c.idle = kept
	if len(kept) == 0 && c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
}

func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeIdle(time.Now().Add(-c.options.IdleTimeout))
	if c.sweeper != nil {
		c.sweeper.Reset(c.options.IdleTimeout)
	}
}

// kept returns an idle connection, nil if there is none.
func (c *Client) kept() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.idle) - 1
	if last < 0 {
		return nil
	}
	conn := c.idle[last]
	c.idle[last] = nil
	c.idle = c.idle[:last]
	return conn
}

// keep keeps a connection for the next exchange.
func (c *Client) keep(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired || len(c.idle) >= c.options.Idle {
		conn.close()
		return
	}
	conn.lastUse = time.Now()
	c.idle = append(c.idle, conn)
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(c.options.IdleTimeout, c.sweep)
	}
}

// dial opens a connection.
func (c *Client) dial(ctx context.Context, call *Call, deadline time.Time) (*connection, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if !call.Cancels(cancel) {
		return nil, ErrEnded
	}
	raw, err := c.options.Dial(ctx, "tcp", c.options.Address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw, c.options.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if protocol := secure.ConnectionState().NegotiatedProtocol; protocol != "" && protocol != "http/1.1" {
		_ = raw.Close()
		return nil, fmt.Errorf("the server insists on the protocol %q", protocol)
	}
	return newConnection(secure, raw, c.options.Host), nil
}

// enter waits until one more connection is allowed. If it succeeds, the caller must call leave.
func (c *Client) enter(ctx context.Context, call *Call, deadline time.Time) error {
	select {
	case c.open <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if !call.Cancels(cancel) {
		return ErrEnded
	}
	select {
	case c.open <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) leave() { <-c.open }
