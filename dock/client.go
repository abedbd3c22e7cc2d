package dock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// maxAnswer bounds an answer of the dock, in bytes.
const maxAnswer = 16 << 20

// Client talks to the dock of one home directory. It is safe for concurrent use and opens a connection for each call.
type Client struct {
	home string
	http *http.Client
}

// Connect returns a client for the dock in home. The dock need not run yet: until it does, calls return ErrNotRunning.
// The caller must close the client.
func Connect(home string) *Client {
	return &Client{home: home, http: &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, home) },
		DisableKeepAlives: true, // calls are rare, and a kept connection would outlive a restarted dock
	}}}
}

// Close releases what the client holds.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// dial connects through /proc/self/fd: the path of a unix socket is limited to 107 bytes, and some home directories are
// longer.
func dial(ctx context.Context, home string) (net.Conn, error) {
	dir, err := os.Open(Dir(home))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), "dock.sock"))
}

// Status returns the state of the dock and everything in it.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, c, "GET", "status", nil)
}

// Shutdown stops all units and hosts in order, then the dock, and waits until the dock has stopped. The record of what
// should run stays: the next Start restores it.
func (c *Client) Shutdown(ctx context.Context) error {
	if err := tell(ctx, c, "POST", "shutdown", nil); err != nil && !errors.Is(err, errBrokeOff) {
		return err
	}
	return waitUnlocked(ctx, c.home)
}

// EnsureHost creates the host if it is missing, starts it if it doesn't run, and waits until it runs. A running host
// keeps running and gets the changed files.
func (c *Client) EnsureHost(ctx context.Context, spec HostSpec) (Host, error) {
	return ask[Host](ctx, c, "PUT", "hosts/"+url.PathEscape(spec.Name), spec)
}

// StartHost starts a stopped host and waits until it runs.
func (c *Client) StartHost(ctx context.Context, name string) error { return c.host(ctx, name, "start") }

// StopHost powers a host off cleanly and waits until it has stopped. It stays off until StartHost or EnsureHost.
func (c *Client) StopHost(ctx context.Context, name string) error { return c.host(ctx, name, "stop") }

// RebootHost stops a host and starts it again.
func (c *Client) RebootHost(ctx context.Context, name string) error {
	return c.host(ctx, name, "reboot")
}

func (c *Client) host(ctx context.Context, name, verb string) error {
	return tell(ctx, c, "POST", "hosts/"+url.PathEscape(name)+"/"+verb, nil)
}

// DeleteHost kills all processes of a host and removes its link and its root directory. Deleting a host that doesn't
// exist is not an error. After success nothing of the host is left.
func (c *Client) DeleteHost(ctx context.Context, name string) error {
	return tell(ctx, c, "DELETE", "hosts/"+url.PathEscape(name), nil)
}

// ListHosts lists all hosts, sorted by name.
func (c *Client) ListHosts(ctx context.Context) ([]Host, error) {
	s, err := c.Status(ctx)
	return s.Hosts, err
}

// EnsureBalancer creates the balancer, without backends, if it is missing.
func (c *Client) EnsureBalancer(ctx context.Context, name string) (Balancer, error) {
	return ask[Balancer](ctx, c, "PUT", "balancers/"+url.PathEscape(name), nil)
}

// SetBackends replaces a balancer's backends ("ADDRESS:PORT") and closes the connections to removed ones.
func (c *Client) SetBackends(ctx context.Context, name string, backends []string) error {
	return tell(ctx, c, "PUT", "balancers/"+url.PathEscape(name)+"/backends", backends)
}

// DeleteBalancer closes a balancer's connections and frees its address and port. Deleting a balancer that doesn't exist
// is not an error.
func (c *Client) DeleteBalancer(ctx context.Context, name string) error {
	return tell(ctx, c, "DELETE", "balancers/"+url.PathEscape(name), nil)
}

// ListBalancers lists all balancers, sorted by name.
func (c *Client) ListBalancers(ctx context.Context) ([]Balancer, error) {
	s, err := c.Status(ctx)
	return s.Balancers, err
}

// EnsureRelay creates a relay to target ("ADDRESS:PORT" in the dock) if it is missing, and returns its address on the
// machine, "127.0.0.1:PORT". The port never changes, because kubeconfigs name it: if another process has taken it,
// EnsureRelay returns an error with CodePortTaken.
func (c *Client) EnsureRelay(ctx context.Context, name, target string) (string, error) {
	r, err := ask[Relay](ctx, c, "PUT", "relays/"+url.PathEscape(name), target)
	return r.Local, err
}

// Publish makes a server in the dock reachable at an address of the machine, from other computers too. If the name is
// already published at another address, the publication moves to the new one. While the dock can't listen at the
// address, the relay's Error says why, and the dock keeps trying. DeleteRelay removes a publication.
func (c *Client) Publish(ctx context.Context, name string, p Publication) (Relay, error) {
	return ask[Relay](ctx, c, "PUT", "publications/"+url.PathEscape(name), p)
}

// DeleteRelay closes a relay and its connections, and frees its port. Deleting a relay that doesn't exist is not an
// error.
func (c *Client) DeleteRelay(ctx context.Context, name string) error {
	return tell(ctx, c, "DELETE", "relays/"+url.PathEscape(name), nil)
}

// EnsureUnit starts a unit, or restarts it if it runs with another specification. It returns once the process has
// started; the caller must check whether it works.
func (c *Client) EnsureUnit(ctx context.Context, u Unit) (UnitStatus, error) {
	return ask[UnitStatus](ctx, c, "PUT", "units/"+url.PathEscape(u.Name), u)
}

// StopUnit stops a unit and all its processes (SIGTERM, then SIGKILL after its grace period) and forgets it. Stopping a
// unit that doesn't exist is not an error.
func (c *Client) StopUnit(ctx context.Context, name string) error {
	return tell(ctx, c, "DELETE", "units/"+url.PathEscape(name), nil)
}

// ListUnits lists all units, sorted by name.
func (c *Client) ListUnits(ctx context.Context) ([]UnitStatus, error) {
	s, err := c.Status(ctx)
	return s.Units, err
}

// tell is like ask, for calls without an answer.
func tell(ctx context.Context, c *Client, method, path string, body any) error {
	_, err := ask[struct{}](ctx, c, method, path, body)
	return err
}

// errBrokeOff is the error of a call to a dock that died before it answered.
var errBrokeOff = fmt.Errorf("%w any more: it exited before it answered", ErrNotRunning)

// brokeOff reports whether the other end of the socket vanished. Pure.
func brokeOff(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// ask makes one call. If the dock refuses, the error is an *Error.
func ask[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return answer, fmt.Errorf("asking the dock: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://dock/v1/"+path, bytes.NewReader(data))
	if err != nil {
		return answer, fmt.Errorf("asking the dock: %w", err)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return answer, fmt.Errorf("%w for %s: start it with `capstan up`", ErrNotRunning, c.home)
	}
	if brokeOff(err) {
		return answer, fmt.Errorf("%w: %w", errBrokeOff, err)
	}
	if err != nil {
		return answer, fmt.Errorf("asking the dock: %w", err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if brokeOff(err) {
		return answer, fmt.Errorf("%w: %w", errBrokeOff, err)
	}
	if err != nil {
		return answer, fmt.Errorf("reading the dock's answer: %w", err)
	}
	if resp.StatusCode >= 300 {
		e := &Error{}
		if json.Unmarshal(data, e) != nil || e.Message == "" {
			e = &Error{Code: CodeFailed, Message: fmt.Sprintf("the dock answers %s: %s", resp.Status, data)}
		}
		return answer, e
	}
	if len(data) == 0 {
		return answer, nil
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, fmt.Errorf("reading the dock's answer: %w", err)
	}
	return answer, nil
}
