package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// own is a separate management plane with its own home directory, for tests that would disturb the shared plane.
type own struct {
	home string
	// wrap is a command line that runs capstan in a restricted environment. If it is empty, nothing is restricted.
	wrap []string
}

// newOwn returns a plane whose home directory does not exist yet. At the end of the test, the directory and everything
// that runs in it are removed.
func newOwn(t *testing.T, wrap ...string) own {
	t.Helper()
	o := own{home: filepath.Join(t.TempDir(), "home"), wrap: wrap}
	t.Cleanup(func() {
		if out, err := o.run(context.Background(), "down", "--delete"); err != nil {
			t.Errorf("down --delete: %v\n%s", err, out)
		}
		if _, err := os.Stat(o.home); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", o.home, err)
		}
	})
	return o
}

// run runs capstan and returns all its output.
func (o own) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	line := append(append([]string{}, o.wrap...), append([]string{capstan}, args...)...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+o.home)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs capstan and fails the test if the command fails.
func (o own) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := o.run(t.Context(), args...)
	if err != nil {
		t.Fatalf("capstan %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// refused runs capstan, which must fail with all these words.
func (o own) refused(t *testing.T, wants []string, args ...string) {
	t.Helper()
	out, err := o.run(t.Context(), args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("capstan %s: error %v, want an exit code that is not zero\n%s", strings.Join(args, " "), err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("capstan %s does not say %q:\n%s", strings.Join(args, " "), want, out)
		}
	}
}

func (o own) server(t *testing.T) string {
	t.Helper()
	var status struct{ Server string }
	if err := json.Unmarshal([]byte(o.must(t, "status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(status.Server)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
