package plane

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestLockIsHeldByChildrenToo(t *testing.T) {
	dir := t.TempDir()
	first, err := lock(t.Context(), dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	child.ExtraFiles = []*os.File{first}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = child.Process.Kill()
			_ = child.Wait()
		}
	}
	defer end()
	first.Close() // as if the plane were killed

	if _, err := lock(t.Context(), dir, 50*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "stop it first") {
		t.Fatalf("locking while a child still runs: got error %v", err)
	}
	end()
	second, err := lock(t.Context(), dir, 10*time.Second)
	if err != nil {
		t.Fatalf("locking after the child has exited: %v", err)
	}
	second.Close()
}
