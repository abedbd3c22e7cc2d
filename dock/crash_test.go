//go:build linux

package dock_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// furnish creates one object of each kind in a dock.
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
	if unit, err = c.EnsureUnit(short(t), dock.Unit{
		Name: "plane", Argv: []string{"/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1001"},
	}); err != nil {
		t.Fatal(err)
	}
	return host, lb, relay, unit
}

// outer returns the id of the dock's outer process.
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

// namespaces returns the network and PID namespaces of a process, which stay visible as long as a process is in them.
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
				t.Fatalf("left after the end of the dock: %s", left)
			}
			eventually(t, "the dock's namespaces are gone", func() bool {
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
			eventually(t, "the host's service runs again", func() bool {
				_, code := in(t, again, "systemctl is-active sleepd")
				return code == 0
			})
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

// A dock may die after recording that a host should run and before writing the host's files. The next dock must not
// start the host without them: its agent would have no configuration.
func TestAHostThatWasNotMadeWaitsForItsFiles(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	spec := dock.HostSpec{Name: "host-1", Files: []dock.File{{Path: "/etc/given", Mode: 0o600, Data: []byte("yes")}}}
	made := ensure(t, c, spec)
	kill(t, outer(t, c))
	if left := nothingLeft(home); left != "" {
		t.Fatalf("left after the end of the dock: %s", left)
	}
	if err := os.RemoveAll(filepath.Join(dock.HostDir(home, "host-1"), "root")); err != nil { // the state at that moment
		t.Fatal(err)
	}
	c = start(t, home)
	if h := hostOf(t, c, "host-1"); h.State != dock.HostStopped {
		t.Fatalf("the host is %s without its files", h.State)
	}
	again := ensure(t, c, spec)
	if out, code := in(t, again, "cat /etc/given"); code != 0 || out != "yes" || again.Address != made.Address {
		t.Errorf("the file has %q (exit %d), the host is %+v, was %+v", out, code, again, made)
	}
}

// zombie reports whether the process of ns has ended and is only waiting for the machine's PID 1 to reap it.
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
		t.Errorf("%d docks answered, want one", len(pids))
	}
}

func TestStartDuringTheEndOfAnother(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	furnish(t, c)
	for range 5 {
		before := hostOf(t, c, "host-1").PID
		kill(t, outer(t, c))
		// Retry at once: the first tries may still reach the dying dock.
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

func TestADockThatIsKilledWhileItAnswersIsNotRunning(t *testing.T) {
	for name, answer := range map[string]string{
		"killed before the answer":           "",
		"killed in the middle of the answer": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
	} {
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
		if _, err := c.Status(short(t)); !errors.Is(err, dock.ErrNotRunning) ||
			!strings.Contains(err.Error(), "before it answered") {
			t.Errorf("%s: error is %v", name, err)
		}
		c.Close()
		l.Close()
		<-served
	}
}
