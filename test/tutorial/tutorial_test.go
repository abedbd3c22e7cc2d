//go:build linux

package tutorial

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
)

const (
	// selected is set if this test shall run: it builds bundles, and upgrades a cluster.
	selected = "CAPSTAN_TEST_TUTORIAL"
	// limit bounds one block; the longest builds two bundles of Kubernetes.
	limit = 25 * time.Minute
	// healthy answers when the extension of the tutorial serves.
	healthy = "http://127.0.0.1:8081/readyz"
)

// reader is a person who follows the tutorial in a shell.
type reader struct {
	*testing.T
	root string
	env  []string
}

// TestTutorial runs all blocks but those of environment "computer", which need another computer: test/enrol and
// test/machine run their commands.
func TestTutorial(t *testing.T) {
	if os.Getenv(selected) == "" {
		t.Skip("takes minutes: make test-tutorial runs it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "capstan-tutorial-") // short: paths of sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	quota := filepath.Join(t.TempDir(), "quota")
	r := &reader{T: t, root: root, env: append(os.Environ(), "CAPSTAN_HOME="+home, "QUOTA="+quota,
		"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))}
	t.Cleanup(func() { r.cleanUp(home) })
	ran := 0
	for _, b := range blocks(placed(string(page), quota)) {
		switch {
		case b.environment == "computer":
			continue
		case strings.HasPrefix(b.commands, "go run "):
			r.serve(script(b))
		default:
			r.run(script(b))
		}
		ran++
	}
	if ran < 9 {
		t.Errorf("%d blocks ran: the pattern does not fit the page any more", ran)
	}
}

// command returns a shell that runs a script in the root of the repository, in a process group of its own.
func (r *reader) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = r.root, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a block to its end.
func (r *reader) run(script string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	began := time.Now()
	out, err := r.command(ctx, script).CombinedOutput()
	if err != nil {
		r.Fatalf("%v after %s:\n%s", err, time.Since(began).Round(time.Second), out)
	}
	r.Logf("%s:\n%s", time.Since(began).Round(100*time.Millisecond), out)
}

// serve starts a block that runs until the test ends, and waits until it answers.
func (r *reader) serve(script string) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	cmd := r.command(ctx, script)
	out, err := os.Create(filepath.Join(r.TempDir(), "log"))
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	r.Cleanup(func() {
		cancel()
		<-ended
		_ = out.Close()
	})
	client := &http.Client{Timeout: 5 * time.Second}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if answer, err := client.Get(healthy); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
			deadline = time.Time{}
		case <-time.After(200 * time.Millisecond):
		}
	}
	log, _ := os.ReadFile(out.Name())
	r.Fatalf("the extension does not answer at %s:\n%s", healthy, log)
}

// cleanUp removes the plane if a block failed, and fails if something is left behind.
func (r *reader) cleanUp(home string) {
	if r.Failed() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if out, err := r.command(ctx, "capstan down --delete").CombinedOutput(); err != nil {
			r.Logf("capstan down --delete: %v\n%s", err, out)
		}
	}
	for _, left := range leftovers.Of(home) {
		r.Errorf("left behind: %s", left)
	}
}
