package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
)

var (
	capstan string // path of the built binary
	homeDir string // home directory of the shared management plane
)

func TestMain(m *testing.M) {
	for variable, serve := range map[string]func(dir string) error{
		extensionDir: serveExtension, actorDir: serveActor, wireDir: serveWire, networkVariable: printNetwork,
	} {
		if dir := os.Getenv(variable); dir != "" {
			if err := serve(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	bin, err := filepath.Abs("../../bin/capstan")
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: bin/capstan is not built: run make build")
		return 1
	}
	capstan = bin
	homeDir, err = os.MkdirTemp("", "capstan-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := command(ctx, "up", "--hosts", "10").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: capstan up: %v\n%s", err, out)
		dumpLogs()
		_ = command(context.Background(), "down", "--delete").Run()
		return 1
	}
	code := m.Run()
	if code != 0 {
		dumpLogs()
	}
	before := namespaces()
	if code == 0 && len(before) == 0 {
		fmt.Fprintln(os.Stderr,
			"e2e: the dock's namespaces were not found, so nothing that is left of them can be found either")
		code = 1
	}
	ctx, cancel = context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := command(ctx, "down", "--delete").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: capstan down --delete: %v\n%s", err, out)
		code = 1
	}
	for _, left := range append(leftovers.Of(homeDir), inhabited(before)...) {
		fmt.Fprintln(os.Stderr, "e2e: left behind:", left)
		code = 1
	}
	return code
}

// dumpLogs prints the last lines of the logs of the plane and the dock.
func dumpLogs() {
	logs, _ := filepath.Glob(filepath.Join(homeDir, "plane", "logs", "*.log"))
	for _, log := range append(logs, filepath.Join(homeDir, "dock", "dock.log")) {
		data, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(os.Stderr, "--- %s\n%s\n", filepath.Base(log), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+homeDir)
	return cmd
}

// try runs capstan and returns what it printed to stdout and to stderr.
func try(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	err = cmd.Run()
	// Quick commands are not logged: while a test waits for a condition, it runs many of them.
	if took := time.Since(start); took >= time.Second {
		t.Logf("capstan %s: %s", strings.Join(args, " "), took.Round(100*time.Millisecond))
	}
	return out.String(), errOut.String(), err
}

// must runs capstan and fails the test if the command fails.
func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := try(t, args...)
	if err != nil {
		tree, _, _ := try(t, "kubectl", "get", "clusters,machines,capstanmachines,capstanhosts", "-o", "wide")
		t.Fatalf("capstan %s: %v\n%s\n%s\n%s", strings.Join(args, " "), err, stdout, stderr, tree)
	}
	return stdout
}

// mustFail runs capstan, which must fail with these words on stderr.
func mustFail(t *testing.T, want string, args ...string) {
	t.Helper()
	_, stderr, err := try(t, args...)
	if err == nil {
		t.Errorf("capstan %s: no error, want one with %q", strings.Join(args, " "), want)
	} else if !strings.Contains(stderr, want) {
		t.Errorf("capstan %s: error\n%swant one with %q", strings.Join(args, " "), stderr, want)
	}
}

// decode runs capstan with -o json and decodes what it prints.
func decode[T any](t *testing.T, args ...string) T {
	t.Helper()
	var value T
	out := must(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		t.Fatalf("capstan %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return value
}

// eventually waits until the function check returns no error, for at most two minutes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	within(t, 2*time.Minute, what, check)
}

// within waits until the function check returns no error, for at most limit. It pauses for a second between two calls,
// because most checks start capstan, and would slow down what they wait for.
func within(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	poll(t, time.Second, limit, what, check)
}

// promptly waits like eventually, but calls check more often. It is for conditions that don't last.
func promptly(t *testing.T, what string, check func() error) {
	t.Helper()
	poll(t, 250*time.Millisecond, 2*time.Minute, what, check)
}

// poll waits until the function check returns no error, for at most limit, and pauses between two calls.
func poll(t *testing.T, pause, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tree, _, _ := try(t, "kubectl", "get", "clusters,machines,capstanmachines,capstanhosts", "-o", "wide")
			t.Fatalf("%s: %v\n%s", what, err, tree)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(pause):
		}
	}
}
