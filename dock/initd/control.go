//go:build linux

package initd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Socket is the path at which PID 1 of a host listens for its applets.
const Socket = "/run/capstan-init.sock"

// Bounds of one call.
const (
	maxRequest = 64 << 10 // bytes
	maxReply   = 8 << 20  // bytes
	callLimit  = 10 * time.Minute
	maxCalls   = 64 // at the same time
)

// request is an applet's call: the name of the applet, then its arguments.
type request struct {
	Args []string `json:"args"`
}

// Reply is the answer of PID 1: what the applet prints, and its exit status.
type Reply struct {
	Out  string `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
	Code int    `json:"code"`
}

// serve answers calls on l until l is closed.
func serve(l net.Listener, answer func(args []string) Reply) {
	slots := make(chan struct{}, maxCalls)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // out of file descriptors: retry when some calls have ended
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		go func() {
			defer func() { <-slots }()
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			var r request
			if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&r); err != nil || len(r.Args) == 0 {
				return
			}
			reply := answer(r.Args)
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			json.NewEncoder(conn).Encode(reply)
		}()
	}
}

// listen creates the control socket; only root of the host can use it.
func listen() (net.Listener, error) {
	os.Remove(Socket)
	l, err := net.Listen("unix", Socket)
	if err != nil {
		return nil, fmt.Errorf("making the control socket of PID 1: %w", err)
	}
	if err := os.Chmod(Socket, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("making the control socket of PID 1: %w", err)
	}
	return l, nil
}

// call sends a call to PID 1.
func call(args []string) (Reply, error) {
	conn, err := net.DialTimeout("unix", Socket, 5*time.Second)
	if err != nil {
		return Reply{}, fmt.Errorf("asking PID 1 of this host: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(callLimit))
	if err := json.NewEncoder(conn).Encode(request{Args: args}); err != nil {
		return Reply{}, fmt.Errorf("asking PID 1 of this host: %w", err)
	}
	var r Reply
	if err := json.NewDecoder(io.LimitReader(conn, maxReply)).Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("waiting for the answer of PID 1 of this host: %w", err)
	}
	return r, nil
}
