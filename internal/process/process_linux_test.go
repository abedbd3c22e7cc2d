package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// The test binary plays the child; CHILD selects its role.
func TestMain(m *testing.M) {
	switch os.Getenv("CHILD") {
	case "":
		os.Exit(m.Run())
	case "crash":
		fmt.Println("reading the settings")
		fmt.Println("cannot open the thing")
		os.Exit(3)
	case "serve":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		touch(os.Getenv("FILE"))
		<-stop
		fmt.Println("bye")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		touch(os.Getenv("FILE"))
		time.Sleep(time.Hour)
	case "chatty":
		for range 1000 {
			fmt.Println(strings.Repeat("x", 99))
		}
	case "parent": // leaves a grandchild behind in its group
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CHILD=stubborn")
		if cmd.Start() != nil {
			os.Exit(9)
		}
		waitFile(os.Getenv("FILE"))
		fmt.Println("grandchild", cmd.Process.Pid)
		os.Exit(4)
	case "supervisor": // runs a child and waits to be killed
		p := child("stubborn", os.Getenv("FILE"))
		p.Started = func(pid int) { fmt.Println(pid) }
		_ = p.Run(context.Background(), nil)
	}
}

func touch(path string) { _ = os.WriteFile(path, nil, 0o600) }

func waitFile(path string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

// child is this binary, ready when file exists.
func child(what, file string) Process {
	return Process{
		Name: what, Path: os.Args[0],
		Env: append(os.Environ(), "CHILD="+what, "FILE="+file),
		Probe: func(context.Context) error {
			_, err := os.Stat(file)
			return err
		},
		StartTimeout: 20 * time.Second,
	}
}

// gone waits until the kernel no longer knows pid, or knows it as a zombie that its parent must reap.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Fatalf("process %d still runs", pid)
}

func TestRunEndsTheChildWithTheContext(t *testing.T) {
	cases := map[string]struct {
		what  string
		grace time.Duration
	}{
		"a polite child ends on SIGTERM": {what: "serve", grace: 20 * time.Second},
		"a stubborn child is killed":     {what: "stubborn", grace: 50 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := child(c.what, filepath.Join(t.TempDir(), "up"))
			p.Grace = c.grace
			pid := 0
			p.Started = func(id int) { pid = id }
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := p.Run(ctx, cancel); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Fatalf("the child was not reaped: %v", err)
			}
		})
	}
}

func TestRunReportsACrash(t *testing.T) {
	p := child("crash", filepath.Join(t.TempDir(), "never"))
	p.Log = filepath.Join(t.TempDir(), "log")
	began := time.Now()
	err := p.Run(t.Context(), func() { t.Error("a child that crashed was reported as ready") })
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Ready {
		t.Fatalf("got %v, want an exit during the start", err)
	}
	for _, want := range []string{"during its start", "exit status 3", "cannot open the thing", p.Log} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not contain %q", err, want)
		}
	}
	if took := time.Since(began); took > p.StartTimeout/2 {
		t.Errorf("the crash was noticed only after %s", took)
	}
}

func TestRunReportsAChildThatCannotStart(t *testing.T) {
	p := Process{Name: "nothing", Path: "/does/not/exist"}
	if err := p.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "check that /does/not/exist exists") {
		t.Fatalf("got error %v, want one that says what to check", err)
	}
}

func TestRunEndsAChildThatIsNeverReady(t *testing.T) {
	p := child("stubborn", filepath.Join(t.TempDir(), "up"))
	p.Probe = func(context.Context) error { return errors.New("the door is shut") }
	p.StartTimeout, p.Grace = 100*time.Millisecond, 10*time.Millisecond
	pid := 0
	p.Started = func(id int) { pid = id }
	err := p.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "the door is shut") ||
		!strings.Contains(err.Error(), "not ready within 100ms") {
		t.Fatalf("got error %v, want one that contains the probe's error", err)
	}
	gone(t, pid)
}

func TestRunEndsWhatTheChildLeft(t *testing.T) {
	p := child("parent", filepath.Join(t.TempDir(), "up"))
	p.Probe = nil
	err := p.Run(t.Context(), nil)
	var exit *ExitError
	if !errors.As(err, &exit) || len(exit.Tail) != 1 {
		t.Fatalf("got error %v, want an ExitError with one line", err)
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(exit.Tail[0], "grandchild "))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

func TestChildDiesWithItsKilledParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	file := filepath.Join(t.TempDir(), "up")
	cmd.Env = append(os.Environ(), "CHILD=supervisor", "FILE="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatal(err)
	}
	waitFile(file)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	gone(t, pid)
}

func TestLogIsBounded(t *testing.T) {
	p := child("chatty", "")
	p.Probe, p.Log, p.LogLimit = nil, filepath.Join(t.TempDir(), "log"), 50_000
	var exit *ExitError
	if err := p.Run(t.Context(), nil); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var total int64
	for _, path := range []string{p.Log, p.Log + ".1"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Size() > p.LogLimit {
			t.Errorf("the log %s has %d bytes", path, info.Size())
		}
		total += info.Size()
	}
	if total < p.LogLimit/2 {
		t.Errorf("only %d bytes of the log were kept", total)
	}
	if len(exit.Tail) != tailLines {
		t.Errorf("the tail has %d lines", len(exit.Tail))
	}
}

func TestKeepStartsADeadChildAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up")
	p := child("serve", file)
	var pid, starts atomic.Int64
	p.Started = func(id int) { pid.Store(int64(id)); starts.Add(1) }
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	ready := make(chan struct{}, 8)
	var deaths atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- p.Keep(ctx, backoff.Backoff{First: time.Millisecond}, Watch{
			Ready: func() { ready <- struct{}{} },
			Died:  func(error, time.Duration) { deaths.Add(1) },
		})
	}()
	const kills = 3
	for range kills {
		receive(t, ready)
		_ = os.Remove(file)
		_ = syscall.Kill(int(pid.Load()), syscall.SIGKILL)
	}
	receive(t, ready)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if deaths.Load() != kills || starts.Load() != kills+1 {
		t.Errorf("there were %d deaths and %d starts", deaths.Load(), starts.Load())
	}
	gone(t, int(pid.Load()))
}

func receive(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("not ready after 20 s")
	}
}

func TestKeepReturnsAFailureOfTheFirstStart(t *testing.T) {
	p := child("crash", filepath.Join(t.TempDir(), "never"))
	var exit *ExitError
	if err := p.Keep(t.Context(), backoff.Backoff{}, Watch{}); !errors.As(err, &exit) {
		t.Fatalf("got error %v, want an ExitError", err)
	}
}

func TestPausesOfAChildThatDies(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		pauses      backoff.Backoff
		lived, want []time.Duration
	}{
		"each death doubles the pause": {backoff.Backoff{First: s, Max: 5 * s}, []time.Duration{s, s, s, 0},
			[]time.Duration{s, 2 * s, 4 * s, 5 * s}},
		"a death after a long life counts as the first": {backoff.Backoff{First: s, Healthy: 60 * s},
			[]time.Duration{0, 61 * s}, []time.Duration{s, s}},
		"a child that was never ready counts as short-lived": {backoff.Backoff{First: s}, []time.Duration{s, 0},
			[]time.Duration{s, 2 * s}},
		"the zero value has defaults": {
			backoff.Backoff{}, []time.Duration{0, 0, 31 * s, 0, 0, 0, 0, 0, 0, 0},
			[]time.Duration{s / 5, 2 * s / 5, s / 5, 2 * s / 5, 4 * s / 5, 8 * s / 5, 16 * s / 5, 32 * s / 5, 10 * s, 10 * s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pauses := withDefaults(c.pauses)
			var got []time.Duration
			for _, lived := range c.lived {
				got = append(got, pauses.After(lived))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
