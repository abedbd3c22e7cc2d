//go:build linux

// Package handoff lets a process in the dock's network namespace listen on the machine: a process outside of this
// namespace opens the listener, and passes it to the other process over a socket pair. Connections need no extra hop,
// so they show their real source addresses.
package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 4 << 10

// answerLimit bounds the wait for a listener.
const answerLimit = 10 * time.Second

// request asks for a listener on 127.0.0.1, or at Address ("ADDRESS:PORT") if it is set. Port 0 lets the other side
// choose. Both ends always run the same program, because the outer process executes itself as the inner one, so the
// messages need no compatibility with other versions.
type request struct {
	Seq     int    `json:"seq"`
	Port    int    `json:"port"`
	Address string `json:"address,omitempty"`
}

// answer answers the request with the same Seq.
type answer struct {
	Seq   int    `json:"seq"`
	Port  int    `json:"port,omitempty"`
	Taken bool   `json:"taken,omitempty"`
	Error string `json:"error,omitempty"`
}

// TakenError reports that another process listens on the port.
type TakenError struct {
	Port    int
	Message string
}

// Error returns the message.
func (e *TakenError) Error() string { return e.Message }

// Pair creates both ends: outer for Serve, and inner for the child process, which passes it to Open.
func Pair() (outer *net.UnixConn, inner *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	inner = os.NewFile(uintptr(fds[1]), "handoff-inner")
	file := os.NewFile(uintptr(fds[0]), "handoff-outer")
	outer, err = connOf(file)
	if err != nil {
		inner.Close()
		return nil, nil, err
	}
	return outer, inner, nil
}

// connOf takes over file.
func connOf(file *os.File) (*net.UnixConn, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("using a socket pair: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("using a socket pair: not a unix socket")
	}
	return unixConn, nil
}

// Serve answers requests until the other end closes.
func Serve(conn *net.UnixConn) error {
	buf := make([]byte, maxMessage)
	for {
		n, err := conn.Read(buf)
		if n == 0 || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for a request for a listener: %w", err)
		}
		var r request
		if err := json.Unmarshal(buf[:n], &r); err != nil {
			return fmt.Errorf("reading a request for a listener: %w", err)
		}
		if err := reply(conn, r); err != nil {
			return err
		}
	}
}

func reply(conn *net.UnixConn, r request) error {
	a := answer{Seq: r.Seq}
	var rights []byte
	l, err := open(r)
	switch {
	case err == nil:
		defer l.Close()
		file, err := l.File()
		if err != nil {
			a.Error = err.Error()
			break
		}
		defer file.Close()
		a.Port = l.Addr().(*net.TCPAddr).Port
		rights = unix.UnixRights(int(file.Fd()))
	case errors.Is(err, syscall.EADDRINUSE):
		a.Taken, a.Port, a.Error = true, r.Port, err.Error()
	default:
		a.Error = err.Error()
	}
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("answering a request for a listener: %w", err)
	}
	if _, _, err := conn.WriteMsgUnix(data, rights, nil); err != nil {
		return fmt.Errorf("answering a request for a listener: %w", err)
	}
	return nil
}

// Client requests listeners. It is safe for concurrent use.
type Client struct {
	conn *net.UnixConn
	gone chan struct{}
	wait time.Duration // how long to wait for an answer

	mu      sync.Mutex // guards what follows
	last    int        // sequence number of the last request
	waiting map[int]chan received
}

type received struct {
	answer
	fds []int
}

// close closes the files of an answer for which nobody waits any more.
func (r received) close() {
	for _, fd := range r.fds {
		unix.Close(fd)
	}
}

// Open takes over the inner end.
func Open(inner *os.File) (*Client, error) {
	conn, err := connOf(inner)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, gone: make(chan struct{}), wait: answerLimit, waiting: map[int]chan received{}}
	go c.read()
	return c, nil
}

// Gone returns a channel that is closed when the outer process has stopped, or by Close.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close closes the client.
func (c *Client) Close() {
	c.conn.Close()
	<-c.gone
}

func (c *Client) read() {
	defer close(c.gone)
	for {
		buf, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
		n, oobn, _, _, err := c.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		r := received{fds: rightsOf(oob[:oobn])}
		if json.Unmarshal(buf[:n], &r.answer) != nil {
			r.close()
			continue
		}
		c.mu.Lock()
		waiter := c.waiting[r.Seq]
		delete(c.waiting, r.Seq)
		c.mu.Unlock()
		if waiter == nil { // the answer came too late
			r.close()
			continue
		}
		waiter <- r // never blocks: the channel has room
	}
}

// ask registers a request and returns its number and the channel of its answer.
func (c *Client) ask() (seq int, waiter chan received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	waiter = make(chan received, 1)
	c.waiting[c.last] = waiter
	return c.last, waiter
}

// forget stops waiting for an answer, which may have just arrived.
func (c *Client) forget(seq int, waiter chan received) {
	c.mu.Lock()
	_, open := c.waiting[seq]
	delete(c.waiting, seq)
	c.mu.Unlock()
	if !open {
		(<-waiter).close()
	}
}

func rightsOf(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for _, m := range messages {
		if more, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, more...)
		}
	}
	return fds // already close-on-exec: net asks for that
}

// Listen returns a listener on the machine's 127.0.0.1. For port 0, it chooses a free port outside the kernel's range
// for outgoing connections, so that the port is likely to be free at the next start too. The error is a *TakenError if
// port is in use.
func (c *Client) Listen(port int) (net.Listener, error) { return c.request(request{Port: port}) }

// ListenAt returns a listener on an address of the machine, in any network.
func (c *Client) ListenAt(address netip.AddrPort) (net.Listener, error) {
	return c.request(request{Address: address.String(), Port: int(address.Port())})
}

func (c *Client) request(r request) (net.Listener, error) {
	seq, waiter := c.ask()
	r.Seq = seq
	data, err := json.Marshal(r)
	if err == nil {
		_, err = c.conn.Write(data)
	}
	if err != nil {
		c.forget(seq, waiter)
		return nil, fmt.Errorf("asking for a listener: %w", err)
	}
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	select {
	case r := <-waiter:
		return listenerOf(r)
	case <-c.gone:
		c.forget(seq, waiter)
		return nil, errors.New("asking for a listener: the outer process of the dock has exited")
	case <-timer.C:
		c.forget(seq, waiter)
		return nil, fmt.Errorf("asking for a listener: no answer from the outer process of the dock in %v: try again", c.wait)
	}
}

func listenerOf(r received) (net.Listener, error) {
	var files []*os.File
	for _, fd := range r.fds {
		files = append(files, os.NewFile(uintptr(fd), "listener"))
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case r.Taken:
		return nil, &TakenError{Port: r.Port, Message: r.Error}
	case r.Error != "":
		return nil, errors.New(r.Error)
	case len(files) != 1:
		return nil, fmt.Errorf("asking for a listener: got %d file descriptors", len(files))
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, fmt.Errorf("using a listener: %w", err)
	}
	return l, nil
}
