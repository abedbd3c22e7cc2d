//go:build linux

package cri

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

// TestAttachShowsTheAnswerToTheFirstInput checks that attach follows the output before it feeds the input.
func TestAttachShowsTheAnswerToTheFirstInput(t *testing.T) {
	log, err := logfile.Open("")
	if err != nil {
		t.Fatal(err)
	}
	answer := func() {
		if err := log.Line(logfile.Stdout, "answer"); err != nil {
			t.Error(err)
		}
		if err := log.Line(logfile.Stderr, "warning"); err != nil {
			t.Error(err)
		}
		log.Close() // ends the output
	}
	var out, errOut bytes.Buffer
	if err := followOutput(t.Context(), log, answer, &out, &errOut); err != nil {
		t.Fatal(err)
	}
	if out.String() != "answer\n" || errOut.String() != "warning\n" {
		t.Errorf("attach shows %q and %q", &out, &errOut)
	}
}

// exec executes a command on a terminal as kubectl does, until ctx ends.
func (c *client) exec(ctx context.Context, container string, in io.Reader, out io.Writer, command ...string) error {
	resp, err := c.Exec(c.ctx, &runtimeapi.ExecRequest{
		ContainerId: container, Cmd: command, Tty: true, Stdin: in != nil, Stdout: true,
	})
	if err != nil {
		return err
	}
	address, err := url.Parse(resp.Url)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", address)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: true})
}

// pid waits until a command has written its process id into the file.
func (c *client) pid(name string) int {
	c.t.Helper()
	var pid int
	waitFor(c.t, name, func() bool {
		data, _ := os.ReadFile(filepath.Join(c.dir, name))
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && strings.HasSuffix(string(data), "\n")
	})
	return pid
}

// ended waits until a process has ended.
func (c *client) ended(pid int) {
	c.t.Helper()
	waitFor(c.t, "process "+strconv.Itoa(pid)+" to end", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
}

func TestATerminalIsHungUpWhenItsClientVanishes(t *testing.T) {
	cases := map[string]struct {
		script string
		silent bool // no standard input
	}{
		"a shell that reads":             {"echo $$ > pid; while read line; do :; done", false},
		"a shell that waits for a child": {"sleep 1000 & echo $! > pid; wait", false},
		"a command that reads nothing":   {"echo $$ > pid; exec sleep 1000", true},
		"a shell that writes":            {"echo $$ > pid; while :; do echo x; done", true},
		"a shell that ignores SIGHUP":    {"trap '' HUP; echo $$ > pid; while :; do sleep 0.05; done", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := serve(t, options(t, t.TempDir()))
			container, _ := c.component("run")
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			var in io.Reader
			if !tc.silent {
				r, w := io.Pipe()
				defer w.Close()
				in = r
			}
			executed := make(chan error, 1)
			go func() { executed <- c.exec(ctx, container, in, io.Discard, "sh", "-c", "cd "+c.dir+"; "+tc.script) }()
			pid := c.pid("pid")
			cancel()
			<-executed
			c.ended(pid)
			checkTerminals(t)
		})
	}
}

// checkTerminals waits until this process holds no terminal.
func checkTerminals(t *testing.T) {
	t.Helper()
	waitFor(t, "terminals to be closed", func() bool {
		files, _ := filepath.Glob("/proc/self/fd/*")
		for _, f := range files {
			if target, err := os.Readlink(f); err == nil && strings.HasSuffix(target, "/ptmx") {
				return false
			}
		}
		return true
	})
}

func TestTheEndOfTheInputIsNotThatOfTheClient(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, _ := c.component("run")
	var out hosttest.Screen
	err := c.exec(c.ctx, container, strings.NewReader("sleep 0.3; echo do''ne; exit 5\n"), &out, "sh")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 5 || !strings.Contains(out.String(), "done\r\n") {
		t.Errorf("the shell ended with %v after %q", err, out.String())
	}
	// Background processes do not hold the terminal.
	began := time.Now()
	if err := c.exec(c.ctx, container, nil, &out, "sh", "-c",
		"trap '' HUP; sleep 1000 & echo $! > "+filepath.Join(c.dir, "pid")); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("a command that leaves a background process took %v", took)
	}
	checkTerminals(t)
	if err := unix.Kill(c.pid("pid"), unix.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestCommandsEndWithTheirContainer(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, _ := c.component("run")
	script := func(name string) []string {
		return []string{"sh", "-c", "echo $$ > " + filepath.Join(c.dir, name) + "; exec sleep 1000"}
	}
	executed, synced := make(chan error, 1), make(chan error, 1)
	go func() { executed <- c.exec(c.ctx, container, nil, io.Discard, script("exec")...) }()
	go func() {
		_, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: script("sync")})
		synced <- err
	}()
	pids := []int{c.pid("exec"), c.pid("sync")}
	c.stop(container, 20)
	for _, pid := range pids {
		c.ended(pid)
	}
	var exit utilexec.ExitError
	if err := <-executed; !errors.As(err, &exit) || exit.ExitStatus() != 137 {
		t.Errorf("exec ended with %v", err)
	}
	if err := <-synced; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("ExecSync ended with %v", err)
	}
}
