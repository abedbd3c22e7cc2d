package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/test/leftovers"
)

// TestMain makes this test binary act as capstan when a script or the dock runs it by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"capstan": main, "kubectl": main})
}

// TestScripts runs testdata/script: one script for each command, named after it. A script starts with its own empty
// home directory. The line "plane" replaces it with the management plane that all scripts share, and the line "cluster"
// waits for the cluster "demo" in that plane. With UPDATE=1 in the environment, the test rewrites the outputs that
// "cmp" compares.
func TestScripts(t *testing.T) {
	shared := &sharedPlane{capstan: besideBuiltBinaries(t), work: shortDirectory(t)}
	t.Cleanup(func() { shared.end(t) })
	all, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	together := slices.DeleteFunc(all, func(file string) bool { return slices.Contains(alone, filepath.Base(file)) })
	t.Run("together", func(t *testing.T) { testscript.Run(t, shared.params(t, together...)) })
	for _, file := range alone {
		t.Run("alone", func(t *testing.T) {
			testscript.Run(t, shared.params(t, filepath.Join("testdata", "script", file)))
		})
	}
}

// alone lists the scripts that change the shared cluster, or stop or restart the plane. They run one by one after all
// others, in this order.
var alone = []string{
	"host_reboot.txtar", "cluster_scale.txtar", "backup_restore.txtar", "cluster_delete.txtar", "up.txtar",
	"down.txtar",
}

// params are the parameters of a run of scripts.
func (s *sharedPlane) params(t *testing.T, files ...string) testscript.Params {
	t.Helper()
	sdk, err := filepath.Abs(filepath.Join("..", "..", "runtime"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(modules))
	return testscript.Params{
		Files:               files,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		WorkdirRoot:         s.work,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "h")
			env.Setenv("CAPSTAN_HOME", home)
			env.Setenv("CAPSTAN", s.capstan)
			env.Setenv("CAPSTAN_STATIC", filepath.Join(filepath.Dir(s.capstan), "capstan-images"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "user"))
			env.Setenv("SDK", sdk)
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOMODCACHE", caches[0])
			env.Setenv("GOCACHE", caches[1])
			// A script that fails must not leave its own plane behind.
			env.Defer(func() {
				if _, err := os.Stat(filepath.Join(home, "dock")); err == nil {
					if out, err := command(context.Background(), s.capstan, home, "down", "--delete"); err != nil {
						t.Errorf("stopping the plane in %s: %v\n%s", home, err, out)
					}
				}
				for _, left := range leftovers.Of(home) {
					t.Errorf("left behind: %s", left)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"plane":      s.use,
			"cluster":    s.useCluster,
			"extension":  func(ts *testscript.TestScript, _ bool, _ []string) { useExtension(t, ts) },
			"eventually": eventually,
		},
	}
}

// useExtension serves the extension of extensionUnderTest until the scripts have ended. Its URL is $EXTENSION; the
// authority of its certificate is in ca.crt.
func useExtension(t *testing.T, ts *testscript.TestScript) {
	url, ca := extensionUnderTest(t)
	ts.Setenv("EXTENSION", url)
	data, err := os.ReadFile(ca)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("ca.crt"), data, 0o600))
}

// besideBuiltBinaries puts the binaries from "make build" into the directory of the capstan that scripts run, because
// capstan looks for them there. It returns the path of that capstan.
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
	// Hosts see this directory under another path, where only files and the mount of the bundles exist.
	for _, name := range []string{"capstan-agent", "capstan-dock", "capstan-extension", "capstan-images"} {
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

// shortDirectory is like t.TempDir, with a path short enough for unix sockets some directories below it.
func shortDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "cli-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// command runs capstan with a home directory, outside scripts, and returns all its output.
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
	work    string // parent of all scripts' directories
	home    string // "" until the plane is started

	started, clustered       sync.Once
	startError, clusterError error
	startOutput              string
	clusterOutput            string
}

// hosts is the size of the shared inventory.
const hosts = 8

// use makes a script work with the shared plane; the file "started" in the script's directory contains the output of
// the plane's start.
func (s *sharedPlane) use(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: plane")
	}
	s.started.Do(func() {
		if s.home, s.startError = os.MkdirTemp("", "capstan-script-"); s.startError == nil {
			s.startOutput, s.startError = command(context.Background(), s.capstan, s.home,
				"up", "--hosts", fmt.Sprint(hosts))
		}
	})
	if s.startError != nil {
		ts.Fatalf("the shared plane: %v\n%s", s.startError, s.startOutput)
	}
	ts.Setenv("CAPSTAN_HOME", s.home)
	ts.Check(os.WriteFile(ts.MkAbs("started"), []byte(s.startOutput), 0o600))
}

// useCluster waits for the shared cluster demo, with one control plane machine and one worker; the file "created"
// contains the output of the cluster's creation.
func (s *sharedPlane) useCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: cluster")
	}
	s.use(ts, false, nil)
	s.clustered.Do(func() {
		s.clusterOutput, s.clusterError = command(context.Background(), s.capstan, s.home,
			"cluster", "create", "demo", "--workers", "1")
	})
	if s.clusterError != nil {
		ts.Fatalf("the shared cluster: %v\n%s", s.clusterError, s.clusterOutput)
	}
	ts.Check(os.WriteFile(ts.MkAbs("created"), []byte(s.clusterOutput), 0o600))
	ts.Setenv("WORKER", s.worker(ts))
}

// worker returns the host of a worker of the shared cluster, or of its control plane if other scripts have left no
// workers.
func (s *sharedPlane) worker(ts *testscript.TestScript) string {
	out, err := command(context.Background(), s.capstan, s.home, "kubectl", "get", "capstanhosts", "-o",
		`jsonpath={range .items[?(@.spec.claim)]}{.spec.claim.controlPlane}{.metadata.name}{"\n"}{end}`)
	ts.Check(err)
	name, controlPlane := "", true
	for line := range strings.Lines(out) {
		if name, controlPlane = strings.CutPrefix(strings.TrimSpace(line), "true"); !controlPlane {
			break
		}
	}
	return name
}

// end removes the plane and fails the test if anything of it remains.
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
		t.Errorf("stopping the shared plane: %v\n%s", err, out)
	}
	for _, left := range leftovers.Of(s.home) {
		t.Errorf("left behind: %s", left)
	}
}

// eventually runs a command until it succeeds and its standard output matches a pattern, for at most two minutes:
// eventually 'PATTERN' COMMAND ARGS... It pauses between two runs, because they would slow down what they wait for.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually 'PATTERN' COMMAND ARGS...")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for limit := time.After(2 * time.Minute); ; {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && pattern.MatchString(out) {
			return
		}
		select {
		case <-limit:
			ts.Fatalf("%s: %v, no match for %q\n%s%s",
				strings.Join(args[1:], " "), err, args[0], out, ts.ReadFile("stderr"))
		case <-time.After(500 * time.Millisecond):
		}
	}
}
