//go:build linux

package dock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

func TestUnits(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	log := filepath.Join(home, "logs/plane.log")
	child := strconv.Itoa(1000000 + os.Getpid()) // seconds to sleep, which also identify the process
	spec := dock.Unit{
		Name: "plane", Argv: []string{"/bin/sh", "-c",
			`echo "$GREETING from $PWD"; setsid sleep ` + child + ` & exec sleep ` + child}, Env: []string{"GREETING=hello"},
		Dir: "/usr", LogFile: log, Grace: time.Second,
	}
	u, err := c.EnsureUnit(short(t), spec)
	if err != nil || !u.Running || u.PID == 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	eventually(t, "the unit's output is in the log", func() bool {
		data, _ := os.ReadFile(log)
		return string(data) == "hello from /usr\n"
	})
	if same, err := c.EnsureUnit(short(t), spec); err != nil || same.PID != u.PID {
		t.Errorf("the same unit again: %+v, %v", same, err)
	}
	kill(t, u.PID)
	eventually(t, "the unit is started again", func() bool {
		s, err := c.Status(short(t))
		return err == nil && s.Units[0].Running && s.Units[0].PID != u.PID && s.Units[0].Restarts == 1 &&
			strings.Contains(s.Units[0].LastExit, "killed")
	})
	eventually(t, "the unit runs once, with one child", func() bool { return count("sleep\x00"+child) == 2 })
	spec.Env = []string{"GREETING=good morning"}
	if changed, err := c.EnsureUnit(short(t), spec); err != nil || !changed.Running || changed.Restarts != 0 {
		t.Errorf("the unit with another environment: %+v, %v", changed, err)
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
	if _, err := c.EnsureUnit(short(t), dock.Unit{
		Name: "x", Argv: []string{"sleep"},
	}); dock.CodeOf(err) != dock.CodeInvalid {
		t.Errorf("a unit with a relative program: %v", err)
	}
	bad, err := c.EnsureUnit(short(t), dock.Unit{Name: "x", Argv: []string{"/no/such/program"}})
	if err != nil || bad.Running || !strings.Contains(bad.LastExit, "/no/such/program") {
		t.Errorf("a unit with a missing program: %+v, %v", bad, err)
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
