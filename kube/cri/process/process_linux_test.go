package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const limit = 10 * time.Second

// start runs a shell script whose output goes to the returned reader, and kills it after the test.
func start(t *testing.T, token, script string) (*Process, *bufio.Reader) {
	t.Helper()
	r, w, err := Pipe(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	p, err := Start(Spec{
		Token: token, Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Stdout: w, Stderr: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(unix.SIGKILL, 0); err != nil {
			t.Error(err)
		}
		p.Close()
	})
	return p, bufio.NewReader(r)
}

func token(t *testing.T) string { return fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name()) }

func wait(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(limit):
		t.Fatalf("process %d did not end", p.PID())
		panic("unreachable")
	}
}

// line waits for one line of output.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("reading output: %v", err)
	}
	return strings.TrimSpace(s)
}

func TestExitCodes(t *testing.T) {
	cases := map[string]struct {
		script string
		want   int32
	}{
		"success":          {"exit 0", 0},
		"failure":          {"exit 3", 3},
		"ended by SIGKILL": {"kill -9 $$", 137},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, token(t), c.script)
			if got := wait(t, p).Code; got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if err := p.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
				t.Errorf("signal to an ended process: %v, want ErrGone", err)
			}
		})
	}
}

func TestStop(t *testing.T) {
	cases := map[string]struct {
		script string
		grace  time.Duration
		want   int32
	}{
		"a process that handles the signal ends in its own way": {
			"trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", limit, 7,
		},
		"a process that ignores the signal is killed after the grace period": {
			"trap '' TERM; echo ready; while :; do sleep 0.05; done", 100 * time.Millisecond, 137,
		},
		"without a grace period, a process is killed at once": {
			"trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", 0, 137,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, out := start(t, token(t), c.script)
			line(t, out)
			if err := p.Stop(unix.SIGTERM, c.grace); err != nil {
				t.Fatal(err)
			}
			if got := wait(t, p).Code; got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

func TestAdoptFindsWatchesAndStops(t *testing.T) {
	p, out := start(t, token(t), "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
	line(t, out)
	found, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if found[token(t)] != p.PID() {
		t.Fatalf("found process %d, want %d", found[token(t)], p.PID())
	}
	adopted, err := Adopt(token(t), p.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer adopted.Close()
	if err := adopted.Stop(unix.SIGTERM, limit); err != nil {
		t.Fatal(err)
	}
	// The test's own wait may reap it first. An old kernel doesn't report the code then.
	if got := wait(t, adopted).Code; got != 7 && got != CodeUnknown {
		t.Errorf("exit code %d, want 7", got)
	}
	if found, err = Find(); err != nil || found[token(t)] != 0 {
		t.Errorf("an ended process was found: %d, %v", found[token(t)], err)
	}
}

func TestAdoptRefusesAStranger(t *testing.T) {
	p, out := start(t, token(t), "echo ready; exec sleep 60")
	line(t, out)
	if _, err := Adopt("another token", p.PID()); !errors.Is(err, ErrGone) {
		t.Errorf("adopting by another token: %v, want ErrGone", err)
	}
	wrong, _ := start(t, token(t)+"2", "exit 0")
	wait(t, wrong)
	if _, err := Adopt(token(t)+"2", wrong.PID()); !errors.Is(err, ErrGone) {
		t.Errorf("adopting an ended process: %v, want ErrGone", err)
	}
}

func TestCloseLeavesAnAdoptedProcessAlone(t *testing.T) {
	p, out := start(t, token(t), "trap 'echo still here' USR1; echo ready; while :; do sleep 0.05; done")
	line(t, out)
	adopted, err := Adopt(token(t), p.PID())
	if err != nil {
		t.Fatal(err)
	}
	adopted.Close()
	adopted.Close() // a second call has no effect
	if err := p.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := line(t, out); got != "still here" {
		t.Errorf("output %q", got)
	}
}

func TestOutputSurvivesItsReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	r, w, err := Pipe(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path+".go", 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Token: token(t), Path: "/bin/sh",
		Args: []string{"sh", "-c", "echo one; read _ < $FIFO; echo two"},
		Env:  []string{"PATH=/usr/bin:/bin", "FIFO=" + path + ".go"}, Stdout: w, Stderr: w})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer p.Stop(unix.SIGKILL, 0)
	w.Close()
	if got := line(t, bufio.NewReader(r)); got != "one" {
		t.Fatalf("output %q, want one", got)
	}
	r.Close() // as if the server had died

	again, err := Reader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := os.WriteFile(path+".go", []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := line(t, bufio.NewReader(again)); got != "two" {
		t.Errorf("output %q, want two", got)
	}
	if got := wait(t, p).Code; got != 0 {
		t.Errorf("exit code %d, want 0", got)
	}
}

func TestInnermost(t *testing.T) {
	cases := map[string]struct {
		status string
		want   int
	}{
		"in this namespace":            {"Name:\tx\nNSpid:\t42\nNSpgid:\t42\n", 42},
		"seen from two levels outside": {"NSpid:\t4242\t242\t42\n", 42},
		"an old kernel":                {"Name:\tx\n", 0},
		"a process that ended":         {"", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := innermost([]byte(c.status), "NSpid:"); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
