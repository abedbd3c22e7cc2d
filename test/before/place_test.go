package before

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
)

// patience limits one command, and one wait.
const patience = 4 * time.Minute

// programs are the programs that a release installs, without bundles.
var programs = []string{"capstan", "capstan-agent", "capstan-dock", "capstan-extension"}

// release is a directory with the built programs of one release.
type release struct{ name, dir string }

// releases returns the previous release and today's.
func releases(t *testing.T) (before, now release) {
	t.Helper()
	dir := os.Getenv("CAPSTAN_TEST_BEFORE")
	if dir == "" {
		t.Skip("needs the previous release: make test-before")
	}
	today, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	before, now = release{"the previous release", filepath.Join(dir, "bin")}, release{"this release", today}
	for _, r := range []release{before, now} {
		for _, name := range programs {
			if _, err := os.Stat(filepath.Join(r.dir, name)); err != nil {
				t.Fatalf("%s is not built: run make test-before: %v", r.name, err)
			}
		}
	}
	return before, now
}

// place is a directory in which one release at a time is installed, with the home directory that the release uses.
type place struct {
	*testing.T
	dir, home string
}

// newPlace creates a directory to install releases in. Its home directory must be gone at the end of the test.
func newPlace(t *testing.T, now release) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "capstan-before-") // the path of t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	p := &place{T: t, dir: filepath.Join(dir, "bin"), home: filepath.Join(dir, "home")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(now.dir, "bundles"), filepath.Join(p.dir, "bundles")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.showLogs()
		}
		if out, err := p.run(context.Background(), "down", "--delete"); err != nil {
			t.Errorf("down --delete: %v\n%s", err, out)
		}
		for _, left := range leftovers.Of(p.home) {
			t.Error("left behind:", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// install replaces the installed programs by those of a release, like an installer: each program is complete at any
// time, and running processes keep the old file.
func (p *place) install(r release) {
	p.Helper()
	for _, name := range programs {
		path := filepath.Join(p.dir, name)
		err := copyFile(filepath.Join(r.dir, name), path+".new")
		if err := errors.Join(err, os.Rename(path+".new", path)); err != nil {
			p.Fatal(err)
		}
	}
}

// copyFile creates an executable copy of a file.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// run runs the installed capstan and returns all its output.
func (p *place) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(p.dir, "capstan"), args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+p.home)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	p.Logf("capstan %s: %s", strings.Join(args[:min(4, len(args))], " "), time.Since(began).Round(100*time.Millisecond))
	return string(out), err
}

// must is like run for a command that must succeed.
func (p *place) must(args ...string) string {
	p.Helper()
	out, err := p.run(p.Context(), args...)
	if err != nil {
		p.Fatalf("capstan %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// refused is like run for a command that must fail with these words.
func (p *place) refused(words []string, args ...string) {
	p.Helper()
	out, err := p.run(p.Context(), args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() < 1 {
		p.Errorf("capstan %s: %v, want the exit code of a refusal\n%s", strings.Join(args, " "), err, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			p.Errorf("capstan %s does not print %q:\n%s", strings.Join(args, " "), word, out)
		}
	}
}

// eventually waits for a condition.
func (p *place) eventually(what string, check func() error) {
	p.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for err := check(); err != nil; err = check() {
		if time.Now().After(deadline) {
			p.Fatalf("not within %v: %s: %v", patience, what, err)
		}
		<-tick.C
	}
}

// showLogs logs the last lines of the plane and the dock.
func (p *place) showLogs() {
	for _, path := range []string{"plane/logs/plane.log", "dock/dock.log"} {
		data, err := os.ReadFile(filepath.Join(p.home, path))
		if err != nil {
			continue
		}
		lines := bytes.Split(data, []byte("\n"))
		p.Logf("%s:\n%s", path, bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
	}
}
