package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/test/long"
)

// TestADiskThatFillsUp fills the disk of a running plane, requests a cluster nevertheless, and then makes room again.
// While the disk is full, the plane's status says so. Afterwards, the cluster comes up.
func TestADiskThatFillsUp(t *testing.T) {
	long.Need(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system for the test")
	}
	o := newOwn(t)
	disk := filepath.Dir(o.home)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4g,mode=0700"); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		if out, err := o.run(context.Background(), "down", "--delete"); err != nil {
			t.Logf("down --delete: %v\n%s", err, out)
		}
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmounting the disk, which something still uses: %v", err)
		}
	})
	o.must(t, "up", "--hosts", "3")
	filler := fill(t, filepath.Join(disk, "filler"))

	out, err := o.run(t.Context(), "cluster", "create", "late", "--workers", "0", "--wait=false")
	t.Logf("cluster create on a full disk: %v\n%s", err, out)
	if status := o.must(t, "status", "-o", "json"); !strings.Contains(status,
		"is full, and the plane can't store changes") {
		t.Errorf("the status does not say that the disk is full:\n%s", status)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	o.must(t, "up")
	if err != nil {
		o.must(t, "cluster", "create", "late", "--workers", "0", "--wait=false")
	}
	eventually(t, "the node is Ready", func() error {
		out, err := o.run(t.Context(), "kubectl", "--cluster", "late", "get", "nodes", "--no-headers")
		if err != nil || !strings.Contains(out, " Ready ") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	return name
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
