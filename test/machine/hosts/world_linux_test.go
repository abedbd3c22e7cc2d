package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
	"github.com/capstan-dev/capstan/test/machine"
)

const (
	planeAddress = "192.0.2.1"
	// planeVersion is the version of the plane and its agent; earlierVersion is the version of the agents that machines
	// start with.
	planeVersion, earlierVersion = "v0.9.2", "v0.9.1"
	// waitLimit limits each wait.
	waitLimit = 3 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(machine.Main(m)) }

// world is a plane and the machines in its network.
type world struct {
	t                   *testing.T
	lan                 *machine.LAN
	root, dir, bin, own string
}

// newWorld starts a plane of version planeVersion. At the end of the test, nothing of it may be left.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv(machine.Wanted) == "" {
		t.Skip("starts machines: make test-machines")
	}
	root, err := machine.Root()
	if err != nil {
		t.Fatal(err)
	}
	lan, err := machine.NewLAN(planeAddress, 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lan.Remove(); err != nil {
			t.Error(err)
		}
	})
	dir, err := os.MkdirTemp("", "hosts-") // the path of t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, lan: lan, root: root, dir: dir, bin: filepath.Join(dir, "bin"), own: filepath.Join(dir, "home")}
	w.build()
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(w.own, "plane", "logs", "plane.log"))
			t.Logf("the plane's log ends:\n%s", log[max(0, len(log)-6000):])
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		if out, err := w.command(ctx, "down", "--delete").CombinedOutput(); err != nil {
			t.Errorf("capstan down: %v\n%s", err, out)
		}
		for _, left := range leftovers.Of(w.own) {
			t.Errorf("left behind: %s", left)
		}
	})
	w.run("", "up", "--hosts", "1", "--listen", planeAddress, "--timeout", "5m")
	return w
}

// build builds the binaries of the plane, and the agent that machines start with.
func (w *world) build() {
	w.t.Helper()
	if out, err := exec.Command("cp", "-al", "../../../bin", w.bin).CombinedOutput(); err != nil {
		w.t.Fatalf("bin is not built: run make build: %v\n%s", err, out)
	}
	for path, version := range map[string]string{
		"capstan": planeVersion, "capstan-agent": planeVersion, "capstan-agent-earlier": earlierVersion,
	} {
		from := strings.TrimSuffix(path, "-earlier")
		path = filepath.Join(w.bin, path)
		_ = os.Remove(path) // it may be a hard link to a binary of the repository
		build := exec.Command("go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", path, "../../../cmd/"+from)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			w.t.Fatalf("building %s: %v\n%s", from, err, out)
		}
	}
	_ = os.Remove(filepath.Join(w.bin, "capstan-agent-linux-amd64"))
	_ = os.Remove(filepath.Join(w.bin, "capstan-agent-linux-arm64"))
}

func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "capstan"), args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+w.own)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// try runs capstan with an input.
func (w *world) try(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	cmd := w.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("capstan %s: %w\n%s%s", strings.Join(args, " "), err, &out, &errOut)
	}
	return out.String(), nil
}

// run is like try for a command that must succeed.
func (w *world) run(input string, args ...string) string {
	w.t.Helper()
	out, err := w.try(input, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// field returns a field of an object, or "" if the field does not exist or can't be read.
func (w *world) field(kind, name, path string) string {
	out, err := w.try("", "kubectl", "get", kind, name, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
	if err != nil {
		return ""
	}
	return out
}

// wait waits for a condition, checking it from time to time.
func wait(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !condition(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", waitLimit, what)
		}
	}
}

// ready waits until a host can be claimed.
func (w *world) ready(t *testing.T, name string) {
	t.Helper()
	wait(t, "host "+name+" is ready", func() bool {
		return w.field("capstanhost", name, `.status.conditions[?(@.type=="Ready")].status`) == "True"
	})
}

// host is a machine that has enrolled.
type host struct{ *machine.Machine }

// enroll starts a machine whose address ends with the byte last, and runs the enrolment line on it.
func (w *world) enroll(name string, last int) *host {
	w.t.Helper()
	m, err := machine.Start(context.Background(), w.lan, w.root, w.dir, name, fmt.Sprintf("192.0.2.%d", last))
	if err != nil {
		w.t.Fatal(err)
	}
	h := &host{m}
	w.t.Cleanup(func() {
		if w.t.Failed() {
			log, _ := h.does("journalctl -u capstan-agent --no-pager | tail -60")
			w.t.Logf("%s says:\n%s", name, log)
		}
		if err := m.Remove(); err != nil {
			w.t.Error(err)
		}
	})
	line := w.run("", "host", "token", "create", "--name", name, "--label", "host="+name)
	if _, err := h.does(line); err != nil {
		w.t.Fatal(err)
	}
	w.ready(w.t, name)
	return h
}

// does runs a line in the machine's shell.
func (h *host) does(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	return h.Run(ctx, line)
}

// place copies a file of this computer to the machine.
func (h *host) place(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	path := filepath.Join(h.Root(), to)
	return errors.Join(os.WriteFile(path+".part", data, 0o755), os.Rename(path+".part", path))
}
