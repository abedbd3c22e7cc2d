package upgrade

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/failpoint"
)

// TrialLimit is how long an agent on trial may take to report.
const TrialLimit = 3 * time.Minute

const (
	// variable is the environment variable with the file descriptor on which an agent on trial signals that it has
	// reported.
	variable = "CAPSTAN_AGENT_TRIAL"
	// reported is what an agent on trial writes once it has reported.
	reported = "reported\n"
	// endLimit is how long an agent may take to stop when asked to.
	endLimit = 10 * time.Second
)

// Try runs a candidate in place of this agent, which must have released its lock. Once the candidate has reported, Try
// installs it as the program and returns nil, and the caller executes it. An error means that the program is unchanged
// and that no candidate is running.
func Try(ctx context.Context, c *Candidate, args []string, limit time.Duration, log *slog.Logger) error {
	if err := begin(c.stateDir, c.checksum, time.Now()); err != nil {
		return err
	}
	failpoint.Hit("trial recorded")
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command(c.Path, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), variable+"=3")
	cmd.ExtraFiles = []*os.File{write}
	// If this agent is killed, the agent on trial must not keep the next agent from taking the lock.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends the signal when the thread that started the child ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		write.Close()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting agent %s: %w", c.Version, err)
	}
	failpoint.Hit("trial started")
	log.Info("a later agent is on trial", "version", c.Version, "limit", limit)
	err = await(ctx, read, limit)
	if err == nil {
		failpoint.Hit("trial reported")
		err = c.install()
	}
	end(cmd, ended)
	if err != nil {
		return fmt.Errorf("agent %s was on trial: %w", c.Version, err)
	}
	failpoint.Hit("trial ended")
	return nil
}

// await waits until an agent has reported. The pipe closes when the agent exits.
func await(ctx context.Context, pipe io.Reader, limit time.Duration) error {
	said := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(pipe, 64)).ReadString('\n')
		if err != nil || line != reported {
			err = errors.New("it exited before it had reported to the management cluster")
		}
		said <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-said:
		return err
	case <-timer.C:
		return fmt.Errorf("it did not report to the management cluster within %s", limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end stops an agent and waits until it has exited.
func end(cmd *exec.Cmd, ended <-chan error) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(endLimit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-ended
	}
}

// install replaces the program with the candidate. The previous program stays in the same directory for administrators.
func (c *Candidate) install() error {
	previous := c.Program + previousSuffix
	if err := os.Remove(previous); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(c.Program, previous); err != nil {
		return fmt.Errorf("keeping the program: %w", err)
	}
	if err := os.Rename(c.Path, c.Program); err != nil {
		return fmt.Errorf("replacing the program: %w", err)
	}
	failpoint.Hit("program replaced")
	dir, err := os.Open(filepath.Dir(c.Program))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Trial lets an agent on trial signal that it has reported.
type Trial struct{ file *os.File }

// OnTrial returns the trial of this process, or nil if there is none. It hides the trial from child processes.
func OnTrial() *Trial {
	text := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd)
	return &Trial{os.NewFile(uintptr(fd), "trial")}
}

// Passed tells the previous agent that this one has reported. It may be called repeatedly, and without a trial.
func (t *Trial) Passed() {
	if t == nil || t.file == nil {
		return
	}
	_, _ = io.WriteString(t.file, reported)
	_ = t.file.Close()
	t.file = nil
}
