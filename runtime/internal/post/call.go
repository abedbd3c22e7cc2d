package post

import (
	"context"
	"net"
	"sync"
	"time"
)

// Call lets somebody else end an exchange. The zero value is ready; use it for one exchange.
type Call struct {
	mu     sync.Mutex
	ended  bool
	resent bool
	conn   net.Conn           // while a connection is used
	cancel context.CancelFunc // while a connection is made
}

// past is a deadline that ends all that a connection does.
var past = time.Unix(1, 0)

// End ends the exchange: it fails soon with an error that says nothing. It may be called at any time, also before and
// after.
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

// Resent tells whether the server had closed a connection that was kept, so that the request was sent again on a new
// one: it may have been started anew.
func (c *Call) Resent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resent
}

// resends says that the request is sent again.
func (c *Call) resends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resent = true
}

// Cancels says what to call if the exchange is ended before it uses a connection, and tells whether it still should go
// on.
func (c *Call) Cancels(cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.ended
}

// uses says that a connection is used until the deadline, and tells whether it still should.
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

// leaves says that the connection is not used any more, and tells whether it was left alone until then.
func (c *Call) leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	return !c.ended
}
