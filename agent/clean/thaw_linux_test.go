package clean

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOnlyGroupsOfPodsAreThawed(t *testing.T) {
	root := t.TempDir()
	cases := map[string]struct{ before, after string }{
		"kubepods.slice/kubepods-besteffort.slice/a.scope": {"FROZEN\n", "THAWED"},
		"kubepods.slice/b.scope":                           {"FREEZING\n", "THAWED"},
		"kubepods.slice/c.scope":                           {"THAWED\n", "THAWED\n"}, // not written
		"kubepods/besteffort/d":                            {"FROZEN\n", "THAWED"},
		"machine.slice/e.scope":                            {"FROZEN\n", "FROZEN\n"},
	}
	for group, c := range cases {
		dir := filepath.Join(root, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := thawPods(root); err != nil {
		t.Fatal(err)
	}
	for group, c := range cases {
		if got, err := os.ReadFile(filepath.Join(root, group, "freezer.state")); err != nil || string(got) != c.after {
			t.Errorf("%s: %q, %v, want %q", group, got, err, c.after)
		}
	}
	if err := thawPods(filepath.Join(root, "none")); err != nil {
		t.Errorf("without control groups of version 1: %v", err)
	}
}

// TestAFrozenProcessCanBeKilled freezes a process as runc does, and checks that SIGKILL ends it only after a thaw.
func TestAFrozenProcessCanBeKilled(t *testing.T) {
	root := filepath.Join(freezer, "capstan-test-"+strconv.Itoa(os.Getpid()))
	group := filepath.Join(root, "kubepods.slice")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Skipf("needs root and control groups of version 1: %v", err)
	}
	defer func() {
		for _, dir := range []string{group, root} {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		}
	}()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(group, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	write("cgroup.procs", strconv.Itoa(cmd.Process.Pid))
	write("freezer.state", "FROZEN")
	if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("the process was not frozen")
		return
	case <-time.After(100 * time.Millisecond): // a process that is not frozen ends at once
	}
	if err := thawPods(root); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the thawed process does not end")
	}
}
