package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/test/leftovers"
)

// TestMain makes this test binary be capstan when a script or the dock runs it by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"capstan": main, "kubectl": main})
}

// TestScripts runs testdata/script: one script for each command, named after it. A script begins with an empty home
// directory of its own. The line "plane" puts the management plane in its place that all scripts share, and the line
// "cluster" waits for the cluster "demo" in that.
// UPDATE=1 in the environment writes the outputs that "cmp" compares anew.
func TestScripts(t *testing.T) {
	shared := &sharedPlane{capstan: besideBuiltBinaries(t)}
	t.Cleanup(func() { shared.end(t) })
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       os.Getenv("UPDATE") != "",
		WorkdirRoot:         t.TempDir(), // testscript leaves one of its own behind when not all scripts run
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "h")
			env.Setenv("CAPSTAN_HOME", home)
			env.Setenv("CAPSTAN", shared.capstan)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "user"))
			env.Setenv("GOPROXY", "off")
			// A script that fails must not leave its own plane behind.
			env.Defer(func() {
				if _, err := os.Stat(filepath.Join(home, "dock")); err == nil {
					if out, err := command(context.Background(), shared.capstan, home, "down", "--delete"); err != nil {
						t.Errorf("ending the plane in %s: %v\n%s", home, err, out)
					}
				}
				for _, left := range leftovers.Of(home) {
					t.Errorf("left behind: %s", left)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"plane":      shared.use,
			"cluster":    shared.useCluster,
			"eventually": eventually,
		},
	})
}

// besideBuiltBinaries puts what "make build" has built beside the capstan that scripts run, where that looks for it.
// It returns the path of that capstan.
func besideBuiltBinaries(t *testing.T) string {
	t.Helper()
	capstan, err := exec.LookPath("capstan")
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	// Hosts see this directory under another path, where only files and the mount of the bundles are there.
	for _, name := range []string{"capstan-agent", "capstan-dock", "capstan-extension"} {
		data, err := os.ReadFile(filepath.Join(built, name))
		if err != nil {
			t.Fatalf("%v: run make build", err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(capstan), name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(built, "bundles"), filepath.Join(filepath.Dir(capstan), "bundles")); err != nil {
		t.Fatal(err)
	}
	return capstan
}

// command runs capstan with a home directory, outside of scripts, and returns all that it prints.
func command(ctx context.Context, capstan, home string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+home)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sharedPlane is the management plane of all scripts, started by the first one that needs it.
type sharedPlane struct {
	capstan string // path of the binary
	home    string // "" until it is started

	started, clustered       sync.Once
	startError, clusterError error
	startOutput              string
}

// hosts is the size of the shared inventory.
const hosts = 8

// use makes a script work with the shared plane; "started" in the script's directory is what its start has printed.
func (s *sharedPlane) use(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: plane")
	}
	s.started.Do(func() {
		if s.home, s.startError = os.MkdirTemp("", "capstan-script-"); s.startError == nil {
			s.startOutput, s.startError = command(context.Background(), s.capstan, s.home, "up", "--hosts", fmt.Sprint(hosts))
		}
	})
	if s.startError != nil {
		ts.Fatalf("the shared plane: %v\n%s", s.startError, s.startOutput)
	}
	ts.Setenv("CAPSTAN_HOME", s.home)
	ts.Check(os.WriteFile(ts.MkAbs("started"), []byte(s.startOutput), 0o600))
}

// useCluster waits until the shared cluster is there: demo, with one control plane machine and one worker.
func (s *sharedPlane) useCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: cluster")
	}
	s.use(ts, false, nil)
	s.clustered.Do(func() {
		out, err := command(context.Background(), s.capstan, s.home, "cluster", "create", "demo", "--workers", "1")
		if err != nil {
			s.clusterError = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if s.clusterError != nil {
		ts.Fatalf("the shared cluster: %v", s.clusterError)
	}
}

// end removes the plane and requires that nothing of it is left.
func (s *sharedPlane) end(t *testing.T) {
	if s.home == "" {
		return
	}
	if s.startError != nil || s.clusterError != nil {
		if data, err := os.ReadFile(filepath.Join(s.home, "plane", "logs", "plane.log")); err == nil {
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			t.Logf("the plane's log ends with\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	}
	if out, err := command(context.Background(), s.capstan, s.home, "down", "--delete"); err != nil {
		t.Errorf("ending the shared plane: %v\n%s", err, out)
	}
	for _, left := range leftovers.Of(s.home) {
		t.Errorf("left behind: %s", left)
	}
}

// eventually runs a command until it succeeds and its standard output matches a pattern, for a minute at most:
// eventually 'PATTERN' COMMAND ARGS...
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually 'PATTERN' COMMAND ARGS...")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.After(time.Minute); ; {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && pattern.MatchString(out) {
			return
		}
		select {
		case <-limit:
			ts.Fatalf("%s: %v, no match for %q\n%s%s", strings.Join(args[1:], " "), err, args[0], out, ts.ReadFile("stderr"))
		case <-ticker.C:
		}
	}
}
