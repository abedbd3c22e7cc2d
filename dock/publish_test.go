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

// TestPublish checks that a server in the dock is reachable at an address of the machine, sees who connects, and is
// reachable there again after the dock restarts. The dock retries an unavailable address until it is available.
func TestPublish(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 on this machine to serve with")
	}
	home := t.TempDir()
	c := start(t, home)
	server := `
import socket, threading
s = socket.create_server(("127.0.0.1", 7000))
def serve(c):
    while True:
        d = c.recv(100)
        if not d: break
        c.sendall(b"got " + d)
    c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`
	unit := dock.Unit{Name: "server", Argv: []string{"/usr/bin/env", "python3", "-c", server},
		Env: []string{"PATH=" + os.Getenv("PATH")}}
	if _, err := c.EnsureUnit(short(t), unit); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	at := dock.Publication{Address: fmt.Sprintf("127.0.0.7:%d", port), Target: "127.0.0.1:7000"}
	r, err := c.Publish(short(t), "enrol", at)
	if err != nil || r.Local != at.Address || r.Error != "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	eventually(t, "the published server answers", func() bool { return talk(at.Address) == nil })
	if _, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.8:%d", port), time.Second); !errors.Is(
		err,
		syscall.ECONNREFUSED,
	) {
		t.Errorf("another address of the machine: %v", err)
	}

	at.Announce = true
	if r, err = c.Publish(short(t), "enrol", at); err != nil || r.Error != "" {
		t.Fatalf("publishing with Announce: %+v, %v", r, err)
	}
	conn, err := net.DialTimeout("tcp", at.Address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("got PROXY TCP4 127.0.0.1 127.0.0.7 %d %d\r\n", conn.LocalAddr().(*net.TCPAddr).Port, port)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("the server got %q, %v, want %q", got, err, want)
	}

	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	thief, err := net.Listen("tcp4", at.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	c = start(t, home)
	if r, err = c.Publish(short(t), "enrol", at); err != nil || !strings.Contains(r.Error, at.Address) {
		t.Errorf("while another process listens: %+v, %v", r, err)
	}
	thief.Close()
	eventually(t, "the dock listens when the port is free", func() bool {
		s, err := c.Status(short(t))
		return err == nil && len(s.Relays) == 1 && s.Relays[0].Error == ""
	})
	if _, err := c.EnsureRelay(short(t), "enrol", "127.0.0.1:7000"); dock.CodeOf(err) != dock.CodeInvalid {
		t.Errorf("a relay with the publication's name: %v", err)
	}
	if err := c.DeleteRelay(short(t), "enrol"); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", at.Address, time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the deletion: %v", err)
	}
}

// TestPublishRefuses checks that invalid publications are refused at once.
func TestPublishRefuses(t *testing.T) {
	c := start(t, t.TempDir())
	if _, err := c.EnsureRelay(short(t), "plane", "127.0.0.1:7000"); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]dock.Publication{
		"x":     {Address: "somewhere:7000", Target: "127.0.0.1:7000"},
		"y":     {Address: "127.0.0.7:0", Target: "127.0.0.1:7000"},
		"z":     {Address: "127.0.0.7:7000", Target: "localhost:7000"},
		"A/B":   {Address: "127.0.0.7:7000", Target: "127.0.0.1:7000"},
		"plane": {Address: "127.0.0.7:7000", Target: "127.0.0.1:7000"},
	} {
		if _, err := c.Publish(short(t), name, p); dock.CodeOf(err) != dock.CodeInvalid {
			t.Errorf("%s at %s: %v", name, p.Address, err)
		}
	}
	r, err := c.Publish(short(t), "gone", dock.Publication{Address: "203.0.113.7:7000", Target: "127.0.0.1:7000"})
	if err != nil || !strings.Contains(r.Error, "no such address") {
		t.Errorf("an address that the machine lacks: %+v, %v", r, err)
	}
}

// freePort returns a port on which no process listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.7:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
