//go:build linux

package reap

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes the test process act like a PID 1: orphans become its children.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func sh(t *testing.T, r *Reaper, script string) *Child {
	t.Helper()
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Start(path, []string{"sh", "-c", script},
		&syscall.ProcAttr{Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wait(t *testing.T, c *Child) syscall.WaitStatus {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the child was not collected within 10 s")
	}
	return c.Status()
}

func TestEveryChildGetsItsOwnStatus(t *testing.T) {
	r := New()
	defer r.Close()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			c := sh(t, r, fmt.Sprintf("exit %d", i))
			if s := wait(t, c); s.ExitStatus() != i {
				t.Errorf("child %d: %s", i, Describe(s))
			}
		})
	}
	all.Wait()
}

func TestOrphansAreCollected(t *testing.T) {
	r := New()
	defer r.Close()
	const orphans = 20
	wait(t, sh(t, r, fmt.Sprintf("for i in $(seq %d); do (sh -c 'sleep 0.05' &) ; done", orphans)))
	for limit := time.Now().Add(10 * time.Second); r.Orphans() < orphans; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d orphans were collected, want at least %d", r.Orphans(), orphans)
		}
	}
	status, err := os.ReadFile("/proc/self/task/" + fmt.Sprint(os.Getpid()) + "/children")
	if err == nil && strings.TrimSpace(string(status)) != "" {
		t.Errorf("children are left: %s", status)
	}
}

func TestSignalEndsAChild(t *testing.T) {
	r := New()
	defer r.Close()
	c := sh(t, r, "sleep 60")
	if err := c.SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if s := wait(t, c); s.Signal() != syscall.SIGKILL {
		t.Errorf("the child %s", Describe(s))
	}
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal to a child that has ended: %v", err)
	}
}

func TestAProgramThatDoesNotExistIsAnError(t *testing.T) {
	r := New()
	defer r.Close()
	if _, err := r.Start("/no/such/program", []string{"x"}, &syscall.ProcAttr{}); err == nil ||
		!strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("error is %v", err)
	}
}
