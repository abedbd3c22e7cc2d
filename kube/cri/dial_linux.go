package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/run"
)

// loopback lists the addresses at which a program listens if only its own host may reach it.
var loopback = []string{"127.0.0.1", "::1"}

// dialIn connects to a loopback port in a network namespace, given as run.Host or a path.
func dialIn(ctx context.Context, namespace, port string) (net.Conn, error) {
	if namespace == run.Host {
		return dialLoopback(ctx, port)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlock: the thread, now in another network, exits with the goroutine
		fd, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			dialed <- result{nil, fmt.Errorf("opening the pod's network: %w", err)}
			return
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			dialed <- result{nil, fmt.Errorf("entering the pod's network: %w", err)}
			return
		}
		conn, err := dialLoopback(ctx, port)
		dialed <- result{conn, err}
	}()
	r := <-dialed
	return r.conn, r.err
}

// dialLoopback tries the addresses in turn. All are numeric, so this goroutine's own thread creates the socket.
func dialLoopback(ctx context.Context, port string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	var failed error
	for _, address := range loopback {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}
