package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"

	"github.com/capstan-dev/capstan/kube/component"
)

// Limits of executed commands.
const (
	defaultExecTimeout = 10 * time.Minute
	maxExecOutput      = 16 << 20 // bytes of each stream of ExecSync, cut as in other runtimes
	killDelay          = 2 * time.Second
	// drainDelay bounds the wait for the rest of the output after a command has exited. Usually it takes no time. But a
	// process that the command left behind may hold the output. On a busy machine, a process that this server has forked
	// may hold the output, too, until that process executes its program.
	drainDelay = 10 * time.Second
)

// ExecSync executes a command and returns its output.
func (s *Server) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	c, err := s.real(req.ContainerId)
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(req.Timeout) * time.Second
	if timeout <= 0 {
		timeout = defaultExecTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, done := s.whileRunning(ctx, c)
	defer done()
	cmd, err := s.command(ctx, c, req.Cmd, false)
	if err != nil {
		return nil, err
	}
	var out, errOut limited
	err = runOnPipes(cmd, nil, &out, &errOut)
	if errors.Is(context.Cause(ctx), errEnded) {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s exited before command %q", c.name(), req.Cmd)
	}
	if ctx.Err() != nil && !cmd.exited() {
		return nil, status.Errorf(codes.DeadlineExceeded, "command %q did not finish within %s", req.Cmd, timeout)
	}
	resp := &runtimeapi.ExecSyncResponse{Stdout: out.Bytes(), Stderr: errOut.Bytes()}
	var exit utilexec.ExitError
	if errors.As(err, &exit) {
		resp.ExitCode = int32(exit.ExitStatus())
		return resp, nil
	}
	return resp, err
}

// errEnded is the cancellation cause when the container has ended.
var errEnded = errors.New("the container has ended")

// whileRunning returns a context that also ends with the container's process. The caller must call done.
func (s *Server) whileRunning(ctx context.Context, c *container) (running context.Context, done func()) {
	running, cancel := context.WithCancelCause(ctx)
	s.mu.RLock()
	p := c.process
	s.mu.RUnlock()
	if p == nil {
		cancel(errEnded)
		return running, func() {}
	}
	go func() {
		select {
		case <-p.Done():
			cancel(errEnded)
		case <-running.Done():
		}
	}()
	return running, func() { cancel(nil) }
}

// command is a command executed in a container.
type command interface {
	Start() error
	Wait() error
	StdinPipe() (io.WriteCloser, error)
	// streams sets standard output and standard error.
	streams(out, errOut io.Writer)
	// startOnTerminal starts the command on a new terminal and returns the terminal.
	startOnTerminal() (*os.File, error)
	// kill kills the command and its whole session.
	kill() error
	// exited reports, after Wait, whether the command exited on its own. Its output may end later: the time limit
	// does not cover output of processes that the command leaves behind.
	exited() bool
}

// command prepares a command in a container. The command is killed when ctx ends.
func (s *Server) command(ctx context.Context, c *container, args []string, tty bool) (command, error) {
	if len(args) == 0 {
		return nil, status.Error(codes.InvalidArgument, "there is no command")
	}
	if c.Real {
		return s.realCommand(ctx, c, args, tty)
	}
	return s.hostCommand(ctx, c, args)
}

// hostCommand prepares a command for a component: it runs in the host's filesystem with the container's environment.
// The component's own name selects the bundle's binary; so does another applet's name if the host has no such command.
func (s *Server) hostCommand(ctx context.Context, c *container, args []string) (command, error) {
	image, _ := component.Match(c.Image)
	s.mu.RLock()
	env, dir := environment(nil, c.config.Envs), c.config.WorkingDir
	s.mu.RUnlock()

	path, name := "", filepath.Base(args[0])
	if name != image.Name {
		path = lookPath(args[0], env)
	}
	if path == "" {
		if !slices.Contains(s.opts.Bundles.Contents.Applets, name) {
			return nil, status.Errorf(codes.NotFound, "command %q is not on this host", args[0])
		}
		binary, err := s.opts.Bundles.Find(image)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		path = binary
	}
	if dir == "" {
		dir = "/"
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{args[0]}, args[1:]...)
	cmd.Env = env
	cmd.Dir = dir
	// Its own session, so that what the command starts can be killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainDelay
	return &hostCommand{cmd}, nil
}

// hostCommand is a command in the host's filesystem.
type hostCommand struct{ *exec.Cmd }

func (c *hostCommand) streams(out, errOut io.Writer) { c.Stdout, c.Stderr = out, errOut }

func (c *hostCommand) kill() error { return c.Cancel() }

func (c *hostCommand) exited() bool { return c.ProcessState != nil && c.ProcessState.Exited() }

// lookPath looks a command up in the PATH of env.
func lookPath(name string, env []string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, entry := range env {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return ""
}

// runOnPipes runs a command with its streams; nil streams are empty.
func runOnPipes(cmd command, in io.Reader, out, errOut io.Writer) error {
	cmd.streams(out, errOut)
	if in != nil {
		// Wait would wait for cmd.Stdin, which the client may never close.
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return fmt.Errorf("making standard input: %w", err)
		}
		go func() {
			io.Copy(stdin, in)
			stdin.Close()
		}()
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("executing a command: %w", err)
	}
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command succeeded, and something that it left behind holds its output
	}
	return exitError(err)
}

// runOnTerminal runs a command on a pseudo terminal. The client counts as gone when all its streams have ended or
// nothing can be sent to it. Then the terminal is hung up, and what survives that is killed after killDelay.
func runOnTerminal(cmd command, in io.Reader, out io.Writer, resize <-chan terminalSize) error {
	terminal, err := cmd.startOnTerminal()
	if err != nil {
		return fmt.Errorf("executing a command on a terminal: %w", err)
	}
	defer terminal.Close()
	gone := make(chan struct{})
	hangUp := sync.OnceFunc(func() { close(gone) })
	// The end of the input alone does not mean that the client is gone: the client may be waiting for the command's
	// output.
	var client sync.WaitGroup
	if in != nil {
		client.Go(func() {
			if _, err := io.Copy(terminal, in); err != nil {
				hangUp()
			}
		})
	}
	if resize != nil {
		client.Go(func() {
			for size := range resize {
				setSize(terminal, size)
			}
		})
	}
	if in != nil || resize != nil {
		go func() {
			client.Wait()
			hangUp()
		}()
	}
	if out == nil {
		out = io.Discard
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(checkedWriter{out, hangUp}, terminal)
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-gone:
		terminal.Close()
		select {
		case err = <-ended:
		case <-time.After(killDelay):
			cmd.kill()
			err = <-ended
		}
	}
	select {
	case <-copied:
	case <-time.After(killDelay): // something in the background holds the terminal
		terminal.Close()
		<-copied
	}
	return exitError(err)
}

// startOnTerminal starts the command on a new pseudo terminal. Closing the returned file ends reading and hangs up the
// terminal: the kernel sends SIGHUP to the command and, after its end, to the foreground processes.
func (c *hostCommand) startOnTerminal() (*os.File, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	defer master.Close()
	// The Go runtime closes master only when no read is waiting.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	terminal := os.NewFile(uintptr(fd), master.Name())
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr.Setctty = true
	if err := c.Start(); err != nil {
		terminal.Close()
		return nil, err
	}
	return terminal, nil
}

// setSize resizes a terminal. It avoids Fd, which would make reads of the terminal block.
func setSize(terminal *os.File, size terminalSize) {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return // it was closed
	}
	conn.Control(func(fd uintptr) {
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Width, Row: size.Height})
	})
}

// checkedWriter records that writing failed.
type checkedWriter struct {
	io.Writer
	failed func()
}

// Write implements io.Writer.
func (w checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.failed()
	}
	return n, err
}

// exitError converts an exit code to the form that the streaming library understands.
func exitError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code := exit.ExitCode()
		if code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// limited keeps the first maxExecOutput bytes.
type limited struct{ bytes.Buffer }

// Write implements io.Writer. It accepts everything and keeps what fits.
func (l *limited) Write(p []byte) (int, error) {
	if room := maxExecOutput - l.Len(); room < len(p) {
		l.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}
