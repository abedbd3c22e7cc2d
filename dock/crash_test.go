//go:build linux

package dock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
)

// furnish puts one of each into a dock.
func furnish(t *testing.T, c *dock.Client) (host dock.Host, lb dock.Balancer, relay string, unit dock.UnitStatus) {
	t.Helper()
	host = ensure(t, c, dock.HostSpec{Name: "host-1", Files: sleepd})
	must(t, host, "systemctl enable --now sleepd; setsid sleep 1000 >/dev/null 2>&1 &")
	ensure(t, c, dock.HostSpec{Name: "off"})
	if err := c.StopHost(short(t), "off"); err != nil {
		t.Fatal(err)
	}
	lb, err := c.EnsureBalancer(short(t), "lb")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetBackends(short(t), "lb", []string{dock.Gateway + ":7000"}); err != nil {
		t.Fatal(err)
	}
	if relay, err = c.EnsureRelay(short(t), "plane", dock.Gateway+":7000"); err != nil {
		t.Fatal(err)
	}
	if unit, err = c.EnsureUnit(short(t), dock.Unit{Name: "plane", Argv: []string{"/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1001"}}); err != nil {
		t.Fatal(err)
	}
	return host, lb, relay, unit
}

// outer is the id of the process that everything hangs on.
func outer(t *testing.T, c *dock.Client) int {
	t.Helper()
	s, err := c.Status(short(t))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	var pid int
	fmt.Sscan(rest, &pid)
	return pid
}

// namespaces gives the network and PID namespaces of a process, as they are seen as long as anything is in them.
func namespaces(t *testing.T, pid int) (out []string) {
	t.Helper()
	for _, kind := range []string{"net", "pid"} {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ns)
	}
	return out
}

func TestNothingSurvivesAKillAndStartBringsAllBack(t *testing.T) {
	for name, victim := range map[string]func(*testing.T, *dock.Client) int{
		"the outer process": outer,
		"PID 1 inside": func(t *testing.T, c *dock.Client) int {
			s, err := c.Status(short(t))
			if err != nil {
				t.Fatal(err)
			}
			return s.PID
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			c := start(t, home)
			host, lb, relay, unit := furnish(t, c)
			gone := append(namespaces(t, host.PID), namespaces(t, unit.PID)...)
			kill(t, victim(t, c))
			if left := nothingLeft(home); left != "" {
				t.Fatalf("left: %s", left)
			}
			eventually(t, "its namespaces are gone", func() bool {
				all, _ := filepath.Glob("/proc/[0-9]*/ns/*")
				for _, ns := range all {
					if target, err := os.Readlink(ns); err == nil && strings.Contains(strings.Join(gone, " "), target) && !zombie(ns) {
						return false
					}
				}
				return true
			})
			if _, err := c.Status(short(t)); !errors.Is(err, dock.ErrNotRunning) {
				t.Errorf("status of a dead dock: %v", err)
			}

			c = start(t, home)
			eventually(t, "the host runs again", func() bool { return hostOf(t, c, "host-1").State == dock.HostRunning })
			again := hostOf(t, c, "host-1")
			eventually(t, "its service runs again", func() bool { _, code := in(t, again, "systemctl is-active sleepd"); return code == 0 })
			s, err := c.Status(short(t))
			if err != nil {
				t.Fatal(err)
			}
			if again.Address != host.Address || hostOf(t, c, "off").State != dock.HostStopped {
				t.Errorf("hosts are %+v", s.Hosts)
			}
			if b := s.Balancers[0]; b.Address != lb.Address || b.Relay != lb.Relay || len(b.Backends) != 1 || b.Error != "" {
				t.Errorf("the balancer is %+v, was %+v", b, lb)
			}
			if r := s.Relays[0]; r.Local != relay || r.Error != "" {
				t.Errorf("the relay is %+v, was %s", r, relay)
			}
			if u := s.Units[0]; !u.Running || u.PID == unit.PID {
				t.Errorf("the unit is %+v, was %+v", u, unit)
			}
		})
	}
}

// A dock that dies between the note that a host should run and the writing of its files must not start it without them: whoever asks for a
// host that runs changes nothing, and its agent would never have a configuration.
func TestAHostThatWasNotMadeWaitsForItsFiles(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	spec := dock.HostSpec{Name: "host-1", Files: []dock.File{{Path: "/etc/given", Mode: 0o600, Data: []byte("yes")}}}
	made := ensure(t, c, spec)
	kill(t, outer(t, c))
	if left := nothingLeft(home); left != "" {
		t.Fatalf("left: %s", left)
	}
	if err := os.RemoveAll(filepath.Join(dock.HostDir(home, "host-1"), "root")); err != nil { // as at that moment
		t.Fatal(err)
	}
	c = start(t, home)
	if h := hostOf(t, c, "host-1"); h.State != dock.HostStopped {
		t.Fatalf("the host is %s without its files", h.State)
	}
	again := ensure(t, c, spec)
	if out, code := in(t, again, "cat /etc/given"); code != 0 || out != "yes" || again.Address != made.Address {
		t.Errorf("the file says %q (%d), the host is %+v, was %+v", out, code, again, made)
	}
}

// zombie says whether the process that ns is of has ended and only waits to be collected by PID 1 of the machine.
func zombie(ns string) bool {
	status, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(ns)), "status"))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

func TestTwoStartsAtOnceMakeOneDock(t *testing.T) {
	home := t.TempDir()
	start(t, home) // for the clean-up
	c := dock.Connect(home)
	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			c, err := dock.Start(short(t), options(home))
			if err != nil {
				t.Error(err)
				return
			}
			s, err := c.Status(short(t))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pids[s.PID] = true
		})
	}
	all.Wait()
	if len(pids) != 1 {
		t.Errorf("%d docks answered", len(pids))
	}
}

func TestStartDuringTheEndOfAnother(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	furnish(t, c)
	for range 5 {
		before := hostOf(t, c, "host-1").PID
		kill(t, outer(t, c))
		// At once. The first tries may still reach the dock that dies.
		eventually(t, "a new dock runs the host again", func() bool {
			c, err := dock.Start(short(t), options(home))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			hosts, err := c.ListHosts(short(t))
			return err == nil && len(hosts) == 2 && hosts[0].State == dock.HostRunning && hosts[0].PID != before
		})
	}
}

func TestUnits(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	log := filepath.Join(home, "logs/plane.log")
	child := strconv.Itoa(1000000 + os.Getpid()) // seconds to sleep, and by that known
	spec := dock.Unit{
		Name: "plane", Argv: []string{"/bin/sh", "-c", `echo "$GREETING from $PWD"; setsid sleep ` + child + ` & exec sleep ` + child}, Env: []string{"GREETING=hello"},
		Dir: "/usr", LogFile: log, Grace: time.Second,
	}
	u, err := c.EnsureUnit(short(t), spec)
	if err != nil || !u.Running || u.PID == 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	eventually(t, "its output is in the log", func() bool { data, _ := os.ReadFile(log); return string(data) == "hello from /usr\n" })
	if same, err := c.EnsureUnit(short(t), spec); err != nil || same.PID != u.PID {
		t.Errorf("the same again: %+v, %v", same, err)
	}
	kill(t, u.PID)
	eventually(t, "it is started again", func() bool {
		s, err := c.Status(short(t))
		return err == nil && s.Units[0].Running && s.Units[0].PID != u.PID && s.Units[0].Restarts == 1 && strings.Contains(s.Units[0].LastExit, "killed")
	})
	eventually(t, "it runs once, with one child", func() bool { return count("sleep\x00"+child) == 2 })
	spec.Env = []string{"GREETING=good morning"}
	if changed, err := c.EnsureUnit(short(t), spec); err != nil || !changed.Running || changed.Restarts != 0 {
		t.Errorf("with another environment: %+v, %v", changed, err)
	}
	for range 2 {
		if err := c.StopUnit(short(t), "plane"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count("sleep\x00" + child); n != 0 {
		t.Errorf("%d processes of the unit run", n)
	}
	if units, err := c.ListUnits(short(t)); err != nil || len(units) != 0 {
		t.Errorf("units are %+v, %v", units, err)
	}
	if _, err := c.EnsureUnit(short(t), dock.Unit{Name: "x", Argv: []string{"sleep"}}); dock.CodeOf(err) != dock.CodeInvalid {
		t.Errorf("a relative program: %v", err)
	}
	bad, err := c.EnsureUnit(short(t), dock.Unit{Name: "x", Argv: []string{"/no/such/program"}})
	if err != nil || bad.Running || !strings.Contains(bad.LastExit, "/no/such/program") {
		t.Errorf("a program that does not exist: %+v, %v", bad, err)
	}
}

func count(cmdline string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		if data, _ := os.ReadFile(p); strings.HasPrefix(string(data), cmdline) {
			n++
		}
	}
	return n
}

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
	if _, err := c.EnsureUnit(short(t), dock.Unit{Name: "server", Argv: []string{"/usr/bin/env", "python3", "-c", server}, Env: []string{"PATH=" + os.Getenv("PATH")}}); err != nil {
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
	must(t, h, fmt.Sprintf(`python3 -c "import socket; c = socket.create_connection(('%s', %d), 5); c.sendall(b'x'); assert c.recv(9) == b'got x'"`, lb.Address, lb.Port))

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
		t.Errorf("the connection to a backend that was removed: %v", err)
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
		t.Errorf("backends of a balancer that does not exist: %v", err)
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
	if dock.CodeOf(err) != dock.CodePortTaken || !strings.Contains(err.Error(), port) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("error is %v", err)
	}
	if s, err := c.Status(short(t)); err != nil || s.Relays[0].Error == "" || s.Relays[0].Local != addr {
		t.Errorf("status is %+v, %v", s.Relays, err)
	}
	thief.Close()
	if got, err := c.EnsureRelay(short(t), "plane", dock.Gateway+":7000"); err != nil || got != addr {
		t.Errorf("when it is free again: %s, %v", got, err)
	}
}

func TestAFullDisk(t *testing.T) {
	if os.Getenv("FULL_DISK") == "" {
		// A small disk is a mount, which needs a mount namespace.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), "FULL_DISK=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(home, unix.MNT_DETACH) })
	o := options(home)
	o.MinFree = 1 << 30
	_, err := dock.Start(short(t), o)
	var p *dock.Problem
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("start on a small disk: %v", err)
	}
	if entries, _ := os.ReadDir(home); len(entries) > 0 {
		t.Errorf("something was made: %v", entries)
	}
	c := start(t, home)
	ensure(t, c, dock.HostSpec{Name: "host-1"})
	filler := filepath.Join(home, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	state, _ := os.ReadFile(filepath.Join(home, "dock/state.json"))
	_, err = c.EnsureHost(short(t), dock.HostSpec{Name: "host-2"})
	if dock.CodeOf(err) != dock.CodeNoSpace || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a host on a full disk: %v", err)
	}
	if _, err := c.EnsureBalancer(short(t), "lb"); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a balancer on a full disk: %v", err)
	}
	if _, err := c.EnsureRelay(short(t), "r", "10.231.0.1:1"); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a relay on a full disk: %v", err)
	}
	if _, err := c.EnsureUnit(short(t), dock.Unit{Name: "u", Argv: []string{"/bin/true"}}); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a unit on a full disk: %v", err)
	}
	if now, _ := os.ReadFile(filepath.Join(home, "dock/state.json")); string(now) != string(state) || !json.Valid(now) {
		t.Errorf("the state has changed to %s", now)
	}
	if s, err := c.Status(short(t)); err != nil || len(s.Hosts) != 1 || len(s.Balancers)+len(s.Relays)+len(s.Units) != 0 || s.Hosts[0].State != dock.HostRunning {
		t.Errorf("status is %+v, %v", s, err)
	}
	// Deleting must work even so.
	if err := c.DeleteHost(short(t), "host-1"); err != nil && dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("deleting on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, dock.HostSpec{Name: "host-2"})
	eventually(t, "the deleted host is gone", func() bool { return hostOf(t, c, "host-1").Name == "" })
}

func TestStartTellsWhyItFails(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(dock.Dir(home), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dock.Dir(home), "state.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := dock.Start(short(t), options(home))
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged state: %v", err)
	}
	for name, o := range map[string]dock.Options{
		"relative home":   {Home: "x", BinDir: bin},
		"missing program": {Home: home, BinDir: "/no/such/dir"},
	} {
		if _, err := dock.Start(short(t), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := dock.Start(ctx, options(t.TempDir())); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := dock.Connect(t.TempDir()).Status(short(t)); !errors.Is(err, dock.ErrNotRunning) {
		t.Errorf("status without a dock: %v", err)
	}
}

func TestALongHomeDirectory(t *testing.T) {
	home := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	c := start(t, home)
	ensure(t, c, dock.HostSpec{Name: "host-1"})
	if c.Shutdown(short(t)) != nil {
		t.Error("it can't be shut down")
	}
	start(t, home)
}

func TestWhatTheKernelForbidsIsFoundOutBeforeAnythingIsMade(t *testing.T) {
	for _, program := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine to take rights away with", program)
		}
	}
	for setting, take := range map[string]string{
		"max_net_namespaces":  "",
		"max_user_namespaces": "setpriv --inh-caps=-all --bounding-set=-all",
	} {
		home := filepath.Join(t.TempDir(), "home")
		o := options(home)
		o.Binary = filepath.Join(t.TempDir(), "capstan-dock")
		script := fmt.Sprintf("#!/bin/sh\nexec unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/%s; exec %s %s \"$@\"' sh \"$@\"\n",
			setting, take, filepath.Join(bin, "capstan-dock"))
		if err := os.WriteFile(o.Binary, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := dock.Start(short(t), o)
		var p *dock.Problem
		if !errors.As(err, &p) || p.Setting != "user."+setting || p.Have != "0" || !strings.Contains(err.Error(), "sudo sysctl -w user."+setting+"=") {
			t.Errorf("%s: error is %v", setting, err)
		}
		if _, err := os.Lstat(home); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was made: %v", setting, err)
		}
	}
}

func TestADockThatIsKilledWhileItAnswersIsNotRunning(t *testing.T) {
	for name, answer := range map[string]string{"before the answer": "", "in the middle of it": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"} {
		home := t.TempDir()
		if err := os.MkdirAll(dock.Dir(home), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(dock.Dir(home), "dock.sock"))
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if _, err := conn.Read(make([]byte, 4096)); err == nil {
				_, _ = conn.Write([]byte(answer))
			}
		}()
		c := dock.Connect(home)
		if _, err := c.Status(short(t)); !errors.Is(err, dock.ErrNotRunning) || !strings.Contains(err.Error(), "before it had answered") {
			t.Errorf("%s: error is %v", name, err)
		}
		c.Close()
		l.Close()
		<-served
	}
}
