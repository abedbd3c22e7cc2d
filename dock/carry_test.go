//go:build linux

package dock_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

func TestRelaysAndBalancersCarryConnections(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 on this machine to serve with")
	}
	c := start(t, t.TempDir())
	server := `
import socket, threading
s = socket.create_server(("10.231.0.1", 7000))
def serve(c):
    while True:
        d = c.recv(100)
        if not d: break
        c.sendall(b"got " + d)
    c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`
	if _, err := c.EnsureUnit(short(t), dock.Unit{
		Name: "server", Argv: []string{"/usr/bin/env", "python3", "-c", server}, Env: []string{"PATH=" + os.Getenv("PATH")},
	}); err != nil {
		t.Fatal(err)
	}
	relay, err := c.EnsureRelay(short(t), "plane", dock.Gateway+":7000")
	if err != nil {
		t.Fatal(err)
	}
	lb, err := c.EnsureBalancer(short(t), "lb")
	if err != nil {
		t.Fatal(err)
	}
	if talk(lb.Relay) == nil {
		t.Error("a balancer without backends answers")
	}
	if err := c.SetBackends(short(t), "lb", []string{"10.231.0.99:1", dock.Gateway + ":7000"}); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{relay, lb.Relay} {
		eventually(t, addr+" answers", func() bool { return talk(addr) == nil })
	}
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	must(t, h,
		fmt.Sprintf(
			`python3 -c "import socket; c = socket.create_connection(('%s', %d), 5); c.sendall(b'x'); assert c.recv(9) == b'got x'"`, lb.Address, lb.Port))

	open, err := net.DialTimeout("tcp", lb.Relay, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	open.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(open, "x")
	io.ReadFull(open, make([]byte, 5))
	if err := c.SetBackends(short(t), "lb", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection to a removed backend was not closed: %v", err)
	}
	for range 2 {
		if err := errors.Join(c.DeleteBalancer(short(t), "lb"), c.DeleteRelay(short(t), "plane")); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range []string{relay, lb.Relay} {
		if _, err := net.DialTimeout("tcp", addr, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s after the deletion: %v", addr, err)
		}
	}
	if err := c.SetBackends(short(t), "lb", nil); dock.CodeOf(err) != dock.CodeNotFound {
		t.Errorf("setting the backends of a missing balancer: %v", err)
	}
}

func talk(addr string) error {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, "hello")
	buf := make([]byte, 9)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "got hello" {
		return fmt.Errorf("got %q, %w", buf, err)
	}
	return nil
}

func TestAPortThatWasTakenMeanwhileIsAnErrorThatNamesIt(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	addr, err := c.EnsureRelay(short(t), "plane", dock.Gateway+":7000")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	thief, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	c = start(t, home)
	_, err = c.EnsureRelay(short(t), "plane", dock.Gateway+":7000")
	_, port, _ := net.SplitHostPort(addr)
	if dock.CodeOf(err) != dock.CodePortTaken || !strings.Contains(err.Error(), port) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("error is %v", err)
	}
	if s, err := c.Status(short(t)); err != nil || s.Relays[0].Error == "" || s.Relays[0].Local != addr {
		t.Errorf("status is %+v, %v", s.Relays, err)
	}
	thief.Close()
	if got, err := c.EnsureRelay(short(t), "plane", dock.Gateway+":7000"); err != nil || got != addr {
		t.Errorf("when the port is free again: %s, %v", got, err)
	}
}
