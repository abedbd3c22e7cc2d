package post

import (
	"context"
	"net"
	"sync"
	"time"
)

// Call allows another goroutine to end an exchange. The zero value is ready; use it for one exchange.
type Call struct {
	mu     sync.Mutex
	ended  bool
	resent bool
	conn   net.Conn           // while a connection is used
	cancel context.CancelFunc // while a connection is being opened
}

// past is a deadline that interrupts everything on a connection.
var past = time.Unix(1, 0)

// End ends the exchange, which then soon fails with an unspecific error. It may be called at any time, even before and
// after the exchange.
func (c *Call) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
	if c.conn != nil {
		_ = c.conn.SetDeadline(past)
	}
}

// Resent reports whether the request was sent again on a new connection because the server had closed a kept one. The
// server may have been restarted.
func (c *Call) Resent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resent
}

// resends records that the request is sent again.
func (c *Call) resends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resent = true
}

// Cancels sets the function to call if the exchange is ended before it uses a connection. It reports whether the
// exchange should go on.
func (c *Call) Cancels(cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.ended
}

// uses records that a connection is used until the deadline. It reports whether the exchange should go on.
func (c *Call) uses(conn net.Conn, deadline time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = nil
	if c.ended || conn.SetDeadline(deadline) != nil {
		return false
	}
	c.conn = conn
	return true
}

// leaves records that the connection is no longer used. It reports whether the exchange ran undisturbed until then.
func (c *Call) leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	return !c.ended
}
