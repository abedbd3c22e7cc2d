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
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// output is what a command has written so far.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.String(), text)
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
		"a shell that reads":         {"echo $$ > pid; while read line; do :; done", false},
		"one that waits for a child": {"sleep 1000 & echo $! > pid; wait", false},
		"one that reads nothing":     {"echo $$ > pid; exec sleep 1000", true},
		"one that writes":            {"echo $$ > pid; while :; do echo x; done", true},
		"one that ignores SIGHUP":    {"trap '' HUP; echo $$ > pid; while :; do sleep 0.05; done", false},
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
	var out output
	err := c.exec(c.ctx, container, strings.NewReader("sleep 0.3; echo do''ne; exit 5\n"), &out, "sh")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 5 || !out.has("done\r\n") {
		t.Errorf("it ended with %v after %q", err, out.String())
	}
	// Background processes do not hold the terminal.
	began := time.Now()
	if err := c.exec(c.ctx, container, nil, &out, "sh", "-c",
		"trap '' HUP; sleep 1000 & echo $! > "+filepath.Join(c.dir, "pid")); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %v", took)
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
