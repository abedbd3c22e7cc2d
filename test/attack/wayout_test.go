//go:build linux

package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/internal/testnet"
)

// The network in which a dock's way out is attacked: the machine of the dock, and another computer.
const (
	machineAddress, machineAddress6     = "192.0.2.1", "2001:db8::1"
	otherComputer, otherComputer6       = "192.0.2.2", "2001:db8::2"
	metadataAddress                     = "169.254.169.254" // of the other computer, like a cloud's metadata service
	answersAsMachine, answersAsComputer = "the machine", "another computer"
)

// meetWayOut starts a dock on a machine that has a network with another computer. Both answer at the same port of all
// their addresses.
func (w *world) meetWayOut(t *testing.T) {
	t.Helper()
	machine, other := testnet.New(t), testnet.New(t)
	testnet.Cable(machine, "eth0", []string{machineAddress + "/24", machineAddress6 + "/64", "169.254.0.1/16"},
		other, "eth0", []string{otherComputer + "/24", otherComputer6 + "/64", metadataAddress + "/16"})
	port := machine.Serve(0, answersAsMachine)
	other.Serve(port, answersAsComputer)
	w.vars["wayoutport"] = fmt.Sprint(port)

	w.wayOut = home.Dir(filepath.Join(filepath.Dir(string(w.home)), "machine"))
	cmd := exec.Command(filepath.Join(w.bin, "capstan-dock"), "run", "--home", string(w.wayOut), "--bin-dir", w.bin)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, filepath.Dir(string(w.home))
	if w.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)},
		}
	}
	machine.Do(cmd.Start)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
		if err := cmd.Wait(); err != nil {
			t.Errorf("the dock on the machine exited: %v", err)
		}
	})
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", w.wayOutSocket())
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the way out of the dock accepts no connections: %v", err)
		}
	}
}

func (w *world) wayOutSocket() string { return filepath.Join(w.wayOut.Dock(), "out.sock") }

// through requests a connection from the way out, like a client of the plane, and returns what the other side sends.
func (w *world) through(ctx context.Context, request string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", w.wayOutSocket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, w.fill(request)); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		said, err := io.ReadAll(io.LimitReader(reader, bodyLimit))
		return string(said), err
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed:
		why, _ := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
		return "", refused("%d %s", response.StatusCode, strings.TrimSpace(string(why)))
	}
	return "", fmt.Errorf("%s: %s", strings.SplitN(w.fill(request), "\r", 2)[0], response.Status)
}

// connect returns a request for a connection to an address or a name.
func connect(to string) string {
	return "CONNECT " + to + ":{wayoutport} HTTP/1.1\r\nHost: " + to + ":{wayoutport}\r\n\r\n"
}

// wayOut returns attempts of somebody who may write clusters, and can therefore choose the addresses that Cluster API's
// controllers connect to.
func wayOut() []attempt {
	const boundary = "the way out of the dock leads to other computers"
	out := func(mechanism, request, allowed string) attempt {
		return attempt{
			boundary: boundary, who: author, mechanism: mechanism, root: true,
			try: func(ctx context.Context, w *world) error {
				_, err := w.through(ctx, request)
				return err
			},
			control: func(ctx context.Context, w *world) error {
				said, err := w.through(ctx, connect(allowed))
				if err == nil && !strings.HasPrefix(said, answersAsComputer) {
					err = errors.New(allowed + " says: " + said)
				}
				return err
			},
		}
	}
	to := func(mechanism, address string) attempt { return out(mechanism, connect(address), otherComputer) }
	to6 := func(mechanism, address string) attempt {
		return out(mechanism, connect(address), "["+otherComputer6+"]")
	}
	smuggled := "CONNECT 127.0.0.1:{wayoutport} HTTP/1.1\r\nHost: " + otherComputer + ":{wayoutport}\r\n\r\n"
	plain := "GET http://127.0.0.1:{wayoutport}/ HTTP/1.1\r\nHost: " + otherComputer + ":{wayoutport}\r\n\r\n"
	return []attempt{
		to("connect to the machine's loopback", "127.0.0.1"),
		to("connect to another address of the machine's loopback", "127.8.8.8"),
		to6("connect to the machine's loopback by IPv6", "[::1]"),
		to6("connect to the machine's loopback by a mapped address", "[::ffff:127.0.0.1]"),
		to("connect to any address of the machine", "0.0.0.0"),
		to6("connect to any address of the machine by IPv6", "[::]"),
		to("connect to the machine's own address", machineAddress),
		to6("connect to the machine's own address by IPv6", "["+machineAddress6+"]"),
		to6("connect to the machine's own address by a mapped one", "[::ffff:"+machineAddress+"]"),
		to("connect to a cloud's metadata", metadataAddress),
		to6("connect to a cloud's metadata by a mapped address", "[::ffff:"+metadataAddress+"]"),
		to("connect to the machine by name", "localhost"),
		to("connect to the machine by a number", "2130706433"),
		to("connect to the machine by a short address", "127.1"),
		out("connect to loopback, with another computer in the header", smuggled, otherComputer),
		out("send a GET request instead of CONNECT", plain, otherComputer),
		script(boundary, "use the way out from a host", `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); `+
			`s.connect("{home}/dock/out.sock")'`, `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX)'`),
		asUser(boundary, "use the way out", `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); `+
			`s.connect("{home}/dock/out.sock")'`, `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); `+
			`s.connect("{home}/dock/out.sock")'`),
	}
}
