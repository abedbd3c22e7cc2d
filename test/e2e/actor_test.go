package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The extensions that an actor plays. Failures of the last one are ignored.
const (
	one     = "one"
	two     = "two"
	ignored = "ignored"
)

// Files in the directory of an actor.
const (
	certificateDir = "certificate"
	authorityFile  = "ca.crt"
	readyFile      = "ready" // contains the pid of the process that listens
)

// actor is a process that plays three registered extensions with handlers of all lifecycle hooks. The test directs
// their answers while it runs.
type actor struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	output bytes.Buffer
}

// newActor starts an actor and registers its extensions, all of which pass. At the end of the test, it removes
// everything.
func newActor(t *testing.T) *actor {
	t.Helper()
	a := &actor{t: t, dir: t.TempDir()}
	for _, extension := range []string{one, two, ignored} {
		if err := os.Mkdir(filepath.Join(a.dir, extension), 0o700); err != nil {
			t.Fatal(err)
		}
		a.name(extension, "")
	}
	a.start()
	t.Cleanup(a.stop)
	for _, extension := range []string{one, two, ignored} {
		a.register(extension)
		t.Cleanup(func() { // the test's context has ended
			if out, err := command(context.Background(), "kubectl", "delete", "extensionconfig", extension,
				"--ignore-not-found").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	eventually(t, "the extensions are discovered", func() error {
		out := must(t, "hook", "list")
		for _, extension := range []string{one, two, ignored} {
			if !strings.Contains(out, "beforeclusterdelete."+extension) {
				return fmt.Errorf("the hooks are\n%s", out)
			}
		}
		return nil
	})
	return a
}

// start starts the process, and waits until it serves.
func (a *actor) start() {
	a.t.Helper()
	a.cmd, a.stdin = inDock(a.t, actorDir+"="+a.dir, &a.output)
	eventually(a.t, "the extensions are served", func() error {
		pid, err := os.ReadFile(filepath.Join(a.dir, readyFile))
		if err == nil && string(pid) != strconv.Itoa(a.cmd.Process.Pid) {
			err = errors.New("not yet")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, a.output.String())
		}
		return nil
	})
}

// stop stops the process cleanly.
func (a *actor) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGCONT) // a test may have failed while the process was suspended
	_ = a.stdin.Close()
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("the actor exited with: %v\n%s", err, a.output.String())
	}
}

// signal sends a signal to the process.
func (a *actor) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// kill kills the process.
func (a *actor) kill() {
	a.t.Helper()
	a.signal(syscall.SIGKILL)
	_ = a.cmd.Wait()
	_ = a.stdin.Close()
}

// register creates the ExtensionConfig, or updates its authority.
func (a *actor) register(extension string) {
	a.t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(a.dir, name))
		if err != nil {
			a.t.Fatal(err)
		}
		return data
	}
	apply(a.t,
		fmt.Sprintf("apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nmetadata:\n  name: %s\nspec:\n"+
			"  settings: {from: test}\n  clientConfig:\n    url: %s/%s\n    caBundle: %s\n",
			extension, read(urlFile), extension, base64.StdEncoding.EncodeToString(read(authorityFile))))
}

// name sets a suffix for the names of handlers, effective at the next start.
func (a *actor) name(extension, suffix string) {
	a.t.Helper()
	if err := write(filepath.Join(a.dir, extension, namesFile), []byte(suffix)); err != nil {
		a.t.Fatal(err)
	}
}

// tell sets how an extension answers a hook from now on.
func (a *actor) tell(extension, hook string, l line) {
	a.t.Helper()
	text, err := json.Marshal(l)
	if err == nil {
		err = write(filepath.Join(a.dir, extension, hook), text)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// asked is a call that an extension received, or its answer.
type asked struct {
	Time            time.Time
	Hook, Handler   string
	Request, Answer map[string]json.RawMessage
}

// calls returns the calls of a hook that an extension received, in order. If hook is empty, it returns those of all
// hooks.
func (a *actor) calls(extension, hook string) []asked { return a.notes(extension, callsFile, hook) }

// answers returns the answers that an extension gave for a hook.
func (a *actor) answers(extension, hook string) []asked { return a.notes(extension, answersFile, hook) }

func (a *actor) notes(extension, file, hook string) []asked {
	a.t.Helper()
	data, err := os.ReadFile(filepath.Join(a.dir, extension, file))
	if err != nil {
		a.t.Fatal(err)
	}
	var all []asked
	for text := range strings.Lines(string(data)) {
		var c asked
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			if !strings.HasSuffix(text, "\n") || strings.HasPrefix(text, "\n") {
				continue // an incomplete line: the process was killed
			}
			a.t.Fatalf("%v in %s", err, text)
		}
		if c.Hook != "discovery" && (hook == "" || c.Hook == strings.ToLower(hook)) {
			all = append(all, c)
		}
	}
	return all
}

// asks waits until an extension has been called for a hook this many more times.
func (a *actor) asks(extension, hook string, times int) {
	a.t.Helper()
	before := len(a.calls(extension, hook))
	eventually(a.t, fmt.Sprintf("%s is called %d more times for %s", extension, times, hook), func() error {
		if now := len(a.calls(extension, hook)); now < before+times {
			return fmt.Errorf("it was called %d times", now-before)
		}
		return nil
	})
}

// condition waits until the message of condition TopologyReconciled contains all these texts.
func condition(t *testing.T, cluster string, wants ...string) {
	t.Helper()
	eventually(t, "the Cluster's condition TopologyReconciled", func() error {
		got := must(t, "kubectl", "get", "cluster", cluster, "-o",
			"jsonpath={.status.conditions[?(@.type=='TopologyReconciled')].message}")
		if i := slices.IndexFunc(wants, func(want string) bool { return !strings.Contains(got, want) }); i >= 0 {
			return fmt.Errorf("its message is %q, want %q in it", got, wants[i])
		}
		return nil
	})
}

// rounds blocks a hook in every way. When the shortest of the requested waits is over, all extensions must be called
// again, whether they blocked, failed or passed. The Cluster must say why it waits. In the end, extension one still
// blocks; the result is the message of that block.
func (a *actor) rounds(cluster, hook string) string {
	a.t.Helper()
	before := shape(a.t, cluster)
	a.tell(one, hook, line{blocks, "one has a long wait at " + hook, 5 * time.Minute})
	a.tell(two, hook, line{blocks, "two has a short wait", time.Second})
	a.tell(ignored, hook, line{Manner: breaks})
	condition(a.t, cluster, "one has a long wait at "+hook, "two has a short wait")
	a.asks(one, hook, 2) // within less than the wait of five minutes
	a.t.Attr("rule", "CL-11")
	a.t.Attr("rule", "CL-12")
	told := time.Now()
	a.tell(two, hook, line{fails, "two has failed", 0})
	condition(a.t, cluster, hook, "two has failed")
	a.t.Attr("rule", "CL-08")
	a.asks(one, hook, 1)
	a.t.Attr("rule", "CL-10")
	a.backsOff(two, hook, told)
	sameShape(a.t, cluster, "while an extension fails at "+hook, before)
	a.t.Attr("rule", "CL-09")
	last := line{blocks, "one alone waits at " + hook, time.Second}
	a.tell(one, hook, last)
	a.tell(two, hook, line{})
	condition(a.t, cluster, last.Message)
	a.asks(two, hook, 1)
	a.t.Attr("rule", "CL-06")
	return last.Message
}

// backsOff waits until the pauses between calls of an extension have grown. The extension has failed since the given
// time. In the later half of the pauses, the longest must be at least four times the median of the earlier half. The
// longest pause counts, because changes to the cluster cause additional calls.
func (a *actor) backsOff(extension, hook string, since time.Time) {
	a.t.Helper()
	eventually(a.t, "the pauses between calls of "+extension+" for "+hook+" grow", func() error {
		var pauses []time.Duration
		var before time.Time
		for _, c := range a.calls(extension, hook) {
			if c.Time.After(since) && !before.IsZero() {
				pauses = append(pauses, c.Time.Sub(before))
			}
			if c.Time.After(since) {
				before = c.Time
			}
		}
		half := len(pauses) / 2
		if half < 3 {
			return fmt.Errorf("there were only %d calls", len(pauses)+1)
		}
		earlier := slices.Sorted(slices.Values(pauses[:half]))
		if longest := slices.Max(pauses[half:]); longest < 4*earlier[half/2] {
			return fmt.Errorf("the pauses are %v", pauses)
		}
		return nil
	})
	a.t.Attr("rule", "CL-07")
}

// inDock starts this test binary in the dock's network, where the plane can reach it, with an additional variable. The
// process exits when its standard input is closed.
func inDock(t *testing.T, variable string, output *bytes.Buffer) (*exec.Cmd, interface{ Close() error }) {
	t.Helper()
	pid := 0
	for _, p := range processes() {
		if p.name() == "plane" {
			pid = p.pid
		}
	}
	if pid == 0 {
		t.Fatal("the plane's process was not found")
	}
	args := []string{"--target", strconv.Itoa(pid), "--net"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--preserve-credentials")
	}
	cmd := exec.Command("nsenter", append(args, "--", os.Args[0])...)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stdout, cmd.Stderr = output, output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting an extension in the dock's network (nsenter is in the package util-linux): %v", err)
	}
	return cmd, stdin
}
