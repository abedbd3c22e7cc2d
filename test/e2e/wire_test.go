package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

// wireDir is the variable that makes the test binary act as a wire. Its value is a directory with the file "backends".
// wireListen is the variable with the address to listen on.
const (
	wireDir    = "CAPSTAN_TEST_WIRE"
	wireListen = "CAPSTAN_TEST_WIRE_LISTEN"
)

// wire is a process that forwards connections: from an address in one network to addresses in the same network, or to
// Unix sockets, which all networks of the machine share. Addresses are written "tcp HOST:PORT" and "unix PATH".
type wire struct{ dir string }

// newWire starts a wire in the network of a home directory's dock, or in the machine's network if home is empty, and
// stops it at the end of the test.
func newWire(t *testing.T, home, listen string, backends ...string) wire {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{self}
	if home != "" {
		args = append(enterDock(t, home), self)
	}
	w := wire{t.TempDir()}
	w.forward(t, backends...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), wireDir+"="+w.dir, wireListen+"="+listen)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // the wire exits when its stdin is closed, even if the test is killed
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the wire that listens on %s exited: %v", listen, err)
		}
	})
	eventually(t, "the wire listens on "+listen, func() error {
		_, err := os.Stat(filepath.Join(w.dir, "listens"))
		return err
	})
	return w
}

// enterDock returns the start of a command line that runs the rest in the network of a dock.
func enterDock(t *testing.T, home string) []string {
	t.Helper()
	client := dock.Connect(home)
	defer client.Close()
	status, err := client.Status(t.Context())
	if err != nil {
		t.Fatalf("entering the dock's network: %v", err)
	}
	args := []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", status.PID)}
	if status.Rootless {
		args = append(args, fmt.Sprintf("--user=/proc/%d/ns/user", status.PID), "--preserve-credentials")
	}
	return args
}

// forward makes the wire forward to the first of these addresses that accepts.
func (w wire) forward(t *testing.T, backends ...string) {
	t.Helper()
	file := filepath.Join(w.dir, "backends")
	err := os.WriteFile(file+".new", []byte(strings.Join(backends, "\n")), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serveWire is the main function of a wire's process.
func serveWire(dir string) error {
	network, address, _ := strings.Cut(os.Getenv(wireListen), " ")
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "listens"), nil, 0o600); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go forward(conn, dir)
	}
}

// forward connects a client with the first backend that accepts.
func forward(conn net.Conn, dir string) {
	defer conn.Close()
	backends, _ := os.ReadFile(filepath.Join(dir, "backends"))
	for line := range strings.Lines(string(backends)) {
		network, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		backend, err := (&net.Dialer{}).DialContext(ctx, network, address)
		cancel()
		if err != nil {
			continue
		}
		defer backend.Close()
		go func() {
			_, _ = io.Copy(backend, conn)
			closeWrite(backend)
		}()
		_, _ = io.Copy(conn, backend)
		return
	}
}

func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
