package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childVariable names the environment variable with a directory. It makes a test binary start a machine in this
// directory, print the pid of the machine's first process, and wait until the machine dies.
const childVariable = "CAPSTAN_TEST_MACHINE_CHILD"

// TestAMachineDiesWithItsTest kills a test that runs a machine, and checks that the machine dies with it.
func TestAMachineDiesWithItsTest(t *testing.T) {
	if os.Getenv(Wanted) == "" {
		t.Skip("starts machines: make test-machines")
	}
	if dir := os.Getenv(childVariable); dir != "" {
		live(t, dir)
		return
	}
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestAMachineDiesWithItsTest$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"="+t.TempDir(), insideVariable+"=")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if _, number, found := strings.Cut(lines.Text(), "first process "); found {
			pid, _ = strconv.Atoi(number)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if pid == 0 {
		t.Fatal("the machine has not started")
	}
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(10 * time.Second)
	for {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		sweep(all) // removes the groups of the killed test, as the next test would
		left, _ := filepath.Glob(filepath.Join(all[0].path, "machine-*"))
		if errors.Is(err, fs.ErrNotExist) && len(left) == 0 {
			return
		}
		select {
		case <-limit:
			t.Fatalf("the machine's first process %d (stat: %v) or its groups %v outlive the test", pid, err, left)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// live runs a machine until the process is killed.
func live(t *testing.T, dir string) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	lan, err := NewLAN("192.0.2.1", 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Start(t.Context(), lan, root, dir, "rack1-02", "192.0.2.12")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("first process %d\n", m.body.(*container).pid)
	<-m.ended
}
