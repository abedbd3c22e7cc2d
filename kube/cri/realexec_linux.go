package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/run"
)

// realCommand is a command in a real container. The started process is capstan-run, which exits with the command's exit
// code. If that process dies, so does the command.
type realCommand struct {
	*exec.Cmd
	spec   []byte
	report *os.File // to read after the start
}

// realCommand prepares a command that runs like the container's own program, but with other arguments.
func (s *Server) realCommand(ctx context.Context, c *container, args []string, tty bool) (command, error) {
	spec, err := readSpec(s.store.containerDir(c.ID))
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	program := c.report
	s.mu.RUnlock()
	p := spec.Process
	p.Args, p.Terminal, p.OOMScoreAdj = args, tty, nil
	data, err := json.Marshal(run.Exec{PID: program.PID, Process: p, Groups: spec.Groups})
	if err != nil {
		return nil, fmt.Errorf("encoding a command: %w", err)
	}
	// Check this after reading the specification, so as not to enter another process that got the same number.
	if err := process.SignalOne(program.PID, program.Started, 0); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s has ended", c.name())
	}
	cmd := exec.CommandContext(ctx, s.opts.Runner)
	cmd.Args = []string{"capstan-run", "exec"}
	cmd.Env = runnerEnv
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainDelay
	return &realCommand{Cmd: cmd, spec: data}, nil
}

func readSpec(dir string) (*run.Spec, error) {
	data, err := os.ReadFile(filepath.Join(dir, run.SpecFile))
	if err != nil {
		return nil, fmt.Errorf("reading how the container was started: %w", err)
	}
	var spec run.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("reading how the container was started: %w", err)
	}
	return &spec, nil
}

func (c *realCommand) streams(out, errOut io.Writer) { c.Stdout, c.Stderr = out, errOut }

func (c *realCommand) kill() error { return c.Cancel() }

func (c *realCommand) exited() bool { return c.ProcessState != nil && c.ProcessState.Exited() }

// Start starts capstan-run.
func (c *realCommand) Start() error {
	report, reportEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer reportEnd.Close()
	fd, err := unix.MemfdCreate("exec", unix.MFD_CLOEXEC)
	if err != nil {
		report.Close()
		return fmt.Errorf("making a file in memory: %w", err)
	}
	spec := os.NewFile(uintptr(fd), "exec")
	defer spec.Close()
	c.ExtraFiles = []*os.File{reportEnd, spec}
	if _, err = spec.WriteAt(c.spec, 0); err == nil {
		err = c.Cmd.Start()
	}
	if err != nil {
		report.Close()
		return err
	}
	c.report = report
	return nil
}

// Wait waits for the command. If it could not be executed, the error is the reason.
func (c *realCommand) Wait() error {
	err := c.Cmd.Wait()
	if c.report == nil {
		return err // startOnTerminal read the report
	}
	defer c.report.Close()
	if _, refused := readReport(c.report); refused != nil && err != nil && !killed(err) {
		return status.Error(codes.NotFound, refused.Error())
	}
	return err
}

// killed reports whether a signal ended a command, for example at its timeout.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled()
}

// startOnTerminal starts the command on a terminal of the container. Closing the returned file hangs up the terminal,
// because capstan-run no longer holds it.
func (c *realCommand) startOnTerminal() (*os.File, error) {
	if err := c.Start(); err != nil {
		return nil, err
	}
	report, err := readReport(c.report)
	c.report.Close()
	c.report = nil
	var terminal *os.File
	if err == nil {
		terminal, err = takeTerminal(c.Process.Pid, report.Terminal)
	}
	if err != nil {
		c.kill()
		c.Cmd.Wait()
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return terminal, nil
}
