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
)

// endpointDir is the variable that makes the test's binary serve as a load balancer: its value is a directory with the file "backends".
const endpointDir = "CAPSTAN_TEST_ENDPOINT"

// endpointAddress is that of the dock's bridge: all hosts reach it.
const endpointAddress = "10.231.0.1"

// endpoint is a load balancer of a user's own, for one cluster: a process in the dock's network that forwards connections to control plane hosts.
type endpoint struct{ dir string }

// newEndpoint starts one on a port of [endpointAddress], and ends it with the test.
func newEndpoint(t *testing.T, port string) endpoint {
	t.Helper()
	inside := 0
	for _, p := range processes() {
		if p.name() == "capstan-dock inside" || p.name() == "dock inside" {
			inside = p.pid
		}
	}
	self, err := os.Executable()
	if err != nil || inside == 0 {
		t.Fatalf("starting a load balancer in the dock's network: its process is %d, %v", inside, err)
	}
	e := endpoint{t.TempDir()}
	args := []string{fmt.Sprintf("--net=/proc/%d/ns/net", inside)}
	if os.Geteuid() != 0 {
		args = append(args, fmt.Sprintf("--user=/proc/%d/ns/user", inside), "--preserve-credentials")
	}
	cmd := exec.Command("nsenter", append(args, self)...)
	cmd.Env = append(os.Environ(), endpointDir+"="+e.dir, endpointDir+"_PORT="+port)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // it ends when this is closed, also when the test is killed
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the load balancer ended: %v", err)
		}
	})
	eventually(t, "the load balancer listens", func() error {
		_, err := os.Stat(filepath.Join(e.dir, "listens"))
		return err
	})
	return e
}

// forward makes it forward to these addresses.
func (e endpoint) forward(t *testing.T, backends []string) {
	t.Helper()
	file := filepath.Join(e.dir, "backends")
	err := os.WriteFile(file+".new", []byte(strings.Join(backends, "\n")), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serveEndpoint is the load balancer's process.
func serveEndpoint(dir string) error {
	port := os.Getenv(endpointDir + "_PORT")
	listener, err := net.Listen("tcp", net.JoinHostPort(endpointAddress, port))
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
		go forward(conn, dir, port)
	}
}

// forward connects a client with the first backend that takes it.
func forward(conn net.Conn, dir, port string) {
	defer conn.Close()
	backends, _ := os.ReadFile(filepath.Join(dir, "backends"))
	for _, address := range strings.Fields(string(backends)) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		backend, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		cancel()
		if err != nil {
			continue
		}
		defer backend.Close()
		go func() {
			_, _ = io.Copy(backend, conn)
			_ = backend.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(conn, backend)
		return
	}
}
