package balancer

import (
	"io"
	"net"
)

// join copies in both directions until both have ended. It passes on the end of one direction as a half close, so that
// a peer that has finished sending can still receive. Between two TCP connections, io.Copy stays inside the kernel
// (splice).
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
	// After a reset, a removed backend or a vanished peer, neither direction can continue.
	to.Close()
	from.Close()
}
