//go:build linux

package run

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

const limit = 20 * time.Second

func TestMain(m *testing.M) {
	os.Exit(hosttest.Main(m, map[string]string{"capstan-run": "../cmd/capstan-run", "program": "./testdata/program"}))
}

// world is the host of one test.
type world struct {
	t     testing.TB
	dir   string
	layer string
	one   bool // the host has only one id
}

// newWorld creates an image with the program, and checks after the test that nothing is left.
func newWorld(t testing.TB) *world {
	t.Helper()
	hosttest.Need(t)
	w := &world{t: t, dir: t.TempDir(), one: hosttest.OneID()}
	hosttest.CheckClean(t)
	w.layer = filepath.Join(w.dir, "layer")
	for _, dir := range []string{"bin", "etc", "var/run/old", "gone"} {
		w.must(os.MkdirAll(filepath.Join(w.layer, dir), 0o755))
	}
	program, err := os.ReadFile(hosttest.Tool("program"))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.layer, "bin/program"), program, 0o755))
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nweb:x:101:102:web:/srv/web:/bin/false\n",
		"etc/group":  "root:x:0:\nweb:x:102:\nlogs:x:103:web,other\n",
		"chowned":    "", "replaced": "lower", "gone/file": "lower", "etc/hostile": "image",
	} {
		w.must(os.WriteFile(filepath.Join(w.layer, name), []byte(text), 0o644))
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) waitFor(what string, done func() bool, state func() string) {
	w.t.Helper()
	hosttest.WaitFor(w.t, what, done, state)
}

// box is a container.
type box struct {
	w      *world
	dir    string
	cmd    *exec.Cmd
	out    string // path of its output
	report Report
	ended  chan int
}

// spec returns a container that runs the program, with the usual settings of a pod's container.
func (w *world) spec(args ...string) *Spec {
	return &Spec{
		Layers:   []string{w.layer},
		Hostname: "pod",
		Process: Process{
			Args: append([]string{"program"}, args...), Env: []string{"PATH=/usr/bin:/bin"}, NoNewPrivileges: true,
			Capabilities: Capabilities{Bounding: []string{"CAP_CHOWN", "CAP_NET_BIND_SERVICE", "CAP_KILL",
				"CAP_SETUID", "CAP_SETGID"}},
		},
	}
}

// start starts a container, and fails the test if it does not start.
func (w *world) start(spec *Spec) *box {
	w.t.Helper()
	b := w.try(spec)
	if b.report.Error != "" {
		w.t.Fatalf("starting: %s", b.report.Error)
	}
	return b
}

// try starts a container; its report may contain an error.
func (w *world) try(spec *Spec) *box {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, "container-")
	w.must(err)
	w.must(WriteSpec(dir, spec))
	b := &box{w: w, dir: dir, out: filepath.Join(dir, "out"), ended: make(chan int, 1)}
	if spec.Process.Stdin {
		w.must(unix.Mkfifo(filepath.Join(dir, StdinFile), 0o600))
	}
	out, err := os.Create(b.out)
	w.must(err)
	b.cmd = w.command("container", dir)
	// Pipes, as the CRI server provides them.
	read, write, err := os.Pipe()
	w.must(err)
	b.cmd.Stdout, b.cmd.Stderr = write, write
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(out, read)
		read.Close()
		out.Close()
	}()
	b.report = w.launch(b.cmd)
	write.Close()
	go func() {
		b.cmd.Wait()
		<-copied
		b.ended <- b.cmd.ProcessState.ExitCode()
		close(b.ended)
	}()
	w.t.Cleanup(func() {
		if b.report.PID > 0 {
			unix.Kill(b.report.PID, unix.SIGKILL)
		}
		<-b.ended
	})
	return b
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(hosttest.Tool("capstan-run"), args...)
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// launch starts capstan-run and returns its report.
func (w *world) launch(cmd *exec.Cmd) Report {
	w.t.Helper()
	r, end, err := os.Pipe()
	w.must(err)
	defer r.Close()
	cmd.ExtraFiles = append([]*os.File{end}, cmd.ExtraFiles...)
	w.must(cmd.Start())
	end.Close()
	data, err := io.ReadAll(r)
	w.must(err)
	var report Report
	if err := json.Unmarshal(data, &report); err != nil {
		w.t.Fatalf("the report is %q: %v", data, err)
	}
	return report
}

// wait waits until a container ends and returns its exit code, which must match the one in the file.
func (b *box) wait() int {
	b.w.t.Helper()
	select {
	case code := <-b.ended:
		exit, ok, err := ReadExit(b.dir)
		if err != nil || !ok || int(exit.Code) != code || exit.At == 0 {
			b.w.t.Errorf("the exit on disk is %v, %v, %v; the supervisor's exit code %d", exit, ok, err, code)
		}
		return code
	case <-time.After(limit):
		b.w.t.Fatalf("the container did not end; its output is %q", b.output())
	}
	return -1
}

func (b *box) output() string {
	b.w.t.Helper()
	data, err := os.ReadFile(b.out)
	b.w.must(err)
	return string(data)
}

// says waits until the container has written this text.
func (b *box) says(text string) {
	b.w.t.Helper()
	b.w.waitFor("the container to say "+text, func() bool { return strings.Contains(b.output(), text) }, b.output)
}

// run runs a container to its end and returns its output.
func (w *world) run(spec *Spec) string {
	w.t.Helper()
	b := w.start(spec)
	if code := b.wait(); code != 0 {
		w.t.Fatalf("exit code %d: %s", code, b.output())
	}
	return b.output()
}

// exec executes a program in a container, and returns its output and exit code.
func (b *box) exec(p Process) (string, int, Report) {
	b.w.t.Helper()
	var out bytes.Buffer
	cmd := b.w.command("exec")
	cmd.Stdout, cmd.Stderr = &out, &out
	r, spec, err := os.Pipe()
	b.w.must(err)
	defer r.Close()
	b.w.must(json.NewEncoder(spec).Encode(Exec{PID: b.report.PID, Process: p}))
	spec.Close()
	cmd.ExtraFiles = []*os.File{r}
	report := b.w.launch(cmd)
	cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode(), report
}

// has reports whether a line of a mount table has all words.
func has(mounts []string, words ...string) bool {
	return slices.ContainsFunc(mounts, func(line string) bool {
		for _, word := range words {
			if !slices.Contains(strings.Fields(line), word) && !strings.Contains(line, word+",") {
				return false
			}
		}
		return true
	})
}
