package balancer

import (
	"io"
	"net"
)

// join copies both ways until both directions have ended. The end of one is passed on as a half close, so a peer that
// has finished sending can still receive. io.Copy between two TCP connections stays inside the kernel (splice).
func join(a, b net.Conn) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		oneWay(a, b)
	}()
	oneWay(b, a)
	<-ended
}

func oneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil && half.CloseWrite() == nil {
		return
	}
	// Reset, removed backend, or a peer that is gone: neither direction has a future.
	to.Close()
	from.Close()
}
