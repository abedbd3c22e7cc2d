package examples

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// build builds an example as its users do, without the workspace, and returns the path of the program.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	for _, args := range [][]string{{"build", "-o", program, "."}, {"vet", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join("../../examples", name)
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s\nif go.mod is out of date, run: hack/gomod tidy", strings.Join(args, " "), err, out)
		}
	}
	return program
}

// run runs a program whose temporary files are in temp.
func run(t *testing.T, temp, program string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// tempDir creates a directory whose path is short enough for a home directory in it. At the end of the test it must be
// empty again, and no process or mount may mention it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "capstan-ex-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left := processes(dir)
		for end := time.Now().Add(10 * time.Second); left != "" && time.Now().Before(end); left = processes(dir) {
			time.Sleep(50 * time.Millisecond) // a process may need a moment to exit after releasing its lock
		}
		if left != "" {
			t.Errorf("left behind: process %s", left)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || bytes.Contains(mounts, []byte(dir)) {
			t.Errorf("left behind: a mount in %s, %v", dir, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return dir
}

// processes returns the command line of a process that mentions a path, or "" if there is none.
func processes(path string) string {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		if data, err := os.ReadFile(p); err == nil && bytes.Contains(data, []byte(path)) {
			return string(bytes.ReplaceAll(data, []byte{0}, []byte{' '}))
		}
	}
	return ""
}

func TestLocalPlane(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "capstan")); err != nil {
		t.Fatal("bin/capstan is not built: run make build")
	}
	program := build(t, "local-plane")

	t.Run("starts, shows and stops", func(t *testing.T) {
		stdout, stderr, err := run(t, tempDir(t), program, "-binaries", bin, "-hosts", "2")
		if err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		first, rest, _ := strings.Cut(stdout, "\n")
		if !strings.HasPrefix(first, "The plane is Ready: Kubernetes v1.") || !strings.HasSuffix(first, ", 2 hosts.") {
			t.Errorf("the first line does not say that a plane with 2 hosts is Ready: %q", first)
		}
		if want := "host-01  zone-a  Off\nhost-02  zone-b  Off\nThe plane is gone.\n"; rest != want {
			t.Errorf("after the first line it prints\n%s\nwant\n%s", rest, want)
		}
		if !strings.Contains(stderr, "done: inventory registered\n") {
			t.Errorf("no progress on stderr:\n%s", stderr)
		}
	})
	t.Run("refuses a directory without binaries, with advice", func(t *testing.T) {
		stdout, stderr, err := run(t, tempDir(t), program)
		const want = "Error: the directory with Capstan's binaries is missing"
		if err == nil || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "Hint: ") {
			t.Errorf("error %v, printed %q and %q", err, stdout, stderr)
		}
	})
}
