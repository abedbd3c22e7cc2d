package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/run"
)

// Images is where real containers have their images from. *images.Store is one.
type Images interface {
	// Status returns an image that is there, by a name or its id; images.ErrNotFound otherwise.
	Status(ctx context.Context, ref string) (*images.Image, error)
	// Pull returns an image and gets it first if need be.
	Pull(ctx context.Context, ref string, auth *images.Auth) (*images.Image, error)
	// Remove forgets an image; one that is not there is fine.
	Remove(ctx context.Context, ref string) error
	// List lists what is there.
	List(ctx context.Context) ([]images.Image, error)
	// Usage reports how full the store is.
	Usage(ctx context.Context) (images.Usage, error)
}

// Bounds of containers.
const (
	startLimit = 2 * time.Minute // from the supervisor's start to its report
	maxReport  = 1 << 20
	// startErrorCode is the exit code of a container whose program could not be started, as other runtimes have it.
	startErrorCode = 128
)

// runnerEnv is the environment of supervisors: little memory, as they do little.
var runnerEnv = []string{"GOMAXPROCS=1", "GOGC=50"}

// startReal starts a container from its image. Its supervisor's output is the log's; where nothing was started, this
// closes the log.
func (s *Server) startReal(c *container, sb *sandbox, log *logfile.Log) (err error) {
	dir := s.store.containerDir(c.ID)
	defer func() {
		if err != nil {
			err = errors.Join(s.notStarted(c, err), log.Close())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	img, mounts, err := s.realImage(ctx, c)
	if err != nil {
		return err
	}
	pid, err := s.pidNamespace(c, sb)
	if err != nil {
		return err
	}
	spec, err := realSpec(sb.config, s.spaces(sb.ID), c.config, img, pid)
	if err != nil {
		return err
	}
	if mounts != nil {
		spec.Mounts = append(there(spec.Mounts), mounts...)
	}
	if spec.Groups, err = s.makeGroups(c); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.dropGroups(c)
		}
	}()
	if err := run.WriteSpec(dir, spec); err != nil {
		return err
	}
	if spec.Process.Stdin && !spec.Process.Terminal {
		if err := unix.Mkfifo(filepath.Join(dir, run.StdinFile), 0o600); err != nil {
			return fmt.Errorf("making the pipe for standard input: %w", err)
		}
	}
	out, err := openOutput(dir)
	if err != nil {
		return err
	}
	defer out.closeWriters()
	p, report, err := s.launch(s.token(c.ID), out, "container", dir)
	if err != nil {
		out.closeReaders()
		return err
	}
	for _, note := range report.Notes {
		s.log.Warn("starting a container", "container", c.name(), "note", note)
	}
	streams, err := containerStreams(c, p, &report, out)
	if err != nil {
		p.Stop(unix.SIGKILL, 0)
		p.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.process, c.log, c.PID, c.report = p, log, p.PID(), report
	c.StartedAt = time.Now().UnixNano()
	c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	s.supervise(c, streams)
	s.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.ID, s.sandboxes[c.Sandbox])
	// As for components: when this fails the container runs, and says so.
	if err := s.store.saveContainer(c); err != nil {
		s.log.Error("recording a start", "container", c.name(), "error", err)
	}
	return nil
}

// notStarted records that a container's program could not be started, and why.
func (s *Server) notStarted(c *container, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.StartedAt = time.Now().UnixNano()
	c.FinishedAt = c.StartedAt
	c.ExitCode, c.Reason, c.Message = startErrorCode, "StartError", cause.Error()
	return errors.Join(cause, s.store.saveContainer(c))
}

// launch starts capstan-run and waits for its report. Output is what it and its program write to; nil for none.
func (s *Server) launch(token string, out *pipes, args ...string) (*process.Process, run.Report, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, run.Report{}, fmt.Errorf("making a pipe: %w", err)
	}
	defer r.Close()
	spec := process.Spec{
		Token: token, Path: s.opts.Runner, Args: append([]string{"capstan-run"}, args...), Env: runnerEnv,
		Files: []*os.File{w},
	}
	if out != nil {
		spec.Stdout, spec.Stderr = out.writers[0], out.writers[1]
	}
	p, err := process.Start(spec)
	w.Close()
	if err != nil {
		return nil, run.Report{}, err
	}
	report, err := readReport(r)
	if err != nil {
		p.Stop(unix.SIGKILL, 0)
		p.Close()
		return nil, run.Report{}, err
	}
	return p, report, nil
}

// readReport reads what capstan-run says about a start, and returns its error.
func readReport(r *os.File) (run.Report, error) {
	var report run.Report
	r.SetReadDeadline(time.Now().Add(startLimit)) // a pipe has one
	data, err := io.ReadAll(io.LimitReader(r, maxReport))
	if err != nil {
		return report, fmt.Errorf("waiting for the container to start: %w", err)
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return report, errors.New("the container's supervisor ended without a word")
	}
	if report.Error != "" {
		return report, errors.New(report.Error)
	}
	return report, nil
}

// pidNamespace returns the PID namespace that a container joins.
func (s *Server) pidNamespace(c *container, sb *sandbox) (string, error) {
	options := c.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	s.mu.RLock()
	defer s.mu.RUnlock()
	pid := 0
	switch options.GetPid() {
	case runtimeapi.NamespaceMode_NODE:
		return run.Host, nil
	case runtimeapi.NamespaceMode_CONTAINER:
		return run.New, nil
	case runtimeapi.NamespaceMode_TARGET:
		target := s.containers[options.GetTargetId()]
		if target == nil || target.process == nil || !target.Real || target.Sandbox != sb.ID {
			return "", status.Errorf(codes.FailedPrecondition,
				"the container %q whose processes are asked for does not run in this pod",
				options.GetTargetId())
		}
		pid = target.report.PID
	case runtimeapi.NamespaceMode_POD:
		if sb.pause == nil {
			return "", status.Errorf(codes.FailedPrecondition,
				"pod %s was made without a PID namespace for all containers", sb.ID)
		}
		pid = sb.pause.report.PID
	}
	return fmt.Sprintf("/proc/%d/ns/pid", pid), nil
}

// containerStreams returns what to log: the program's output, or its terminal.
func containerStreams(c *container, p *process.Process, report *run.Report, out *pipes) ([]stream, error) {
	if !c.Real || !c.config.Tty {
		return out.streams(), nil
	}
	out.closeReaders()
	var err error
	if c.terminal, err = takeTerminal(p.PID(), report.Terminal); err != nil {
		return nil, err
	}
	return []stream{{logfile.Stdout, c.terminal}}, nil
}

// takeTerminal takes the terminal of a program that capstan-run has started, the descriptor of its process that was
// reported, and says so by SIGUSR2.
func takeTerminal(pid, number int) (*os.File, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return nil, fmt.Errorf("taking the terminal (Linux 5.6 or later is needed): %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	terminal := os.NewFile(uintptr(fd), "terminal")
	if err := unix.PidfdSendSignal(pidfd, unix.SIGUSR2, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		terminal.Close()
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	return terminal, nil
}

// stopReal asks a container's program to end by its stop signal, and kills it after the grace. It returns when the
// supervisor has ended.
func (s *Server) stopReal(c *container, p *process.Process, grace time.Duration) error {
	if grace > 0 {
		if err := process.SignalOne(c.report.PID, c.report.Started, stopSignal(c)); err != nil && !errors.Is(err,
			process.ErrGone) {
			return err
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.Done():
			return nil
		case <-timer.C:
		}
	}
	if err := process.SignalOne(c.report.PID, c.report.Started, unix.SIGKILL); err != nil && !errors.Is(err,
		process.ErrGone) {
		return err
	}
	// The supervisor writes how the program ended, and ends.
	select {
	case <-p.Done():
		return nil
	case <-time.After(supervisorWait):
		return p.Stop(unix.SIGKILL, 0)
	}
}

// supervisorWait is how long a supervisor may take to end after its program.
const supervisorWait = 10 * time.Second

// realExit returns how a real container ended. One whose supervisor was killed was killed too: the kernel does that,
// and to be sure so does this.
func (s *Server) realExit(c *container, exit process.Exit) process.Exit {
	if written, ok, err := run.ReadExit(s.store.containerDir(c.ID)); err == nil && ok {
		return process.Exit{Code: written.Code, At: time.Unix(0, written.At)}
	}
	report := c.report
	if report.PID == 0 {
		report, _, _ = run.ReadRunning(s.store.containerDir(c.ID)) // none when it was never started
	}
	if report.PID != 0 {
		if err := process.SignalOne(report.PID, report.Started, unix.SIGKILL); err != nil && !errors.Is(err,
			process.ErrGone) {
			s.log.Error("killing a container whose supervisor is gone", "container", c.name(), "error", err)
		}
	}
	return exit
}

// adoptReport reads the report of a container that is adopted. Its supervisor may be at work still.
func (s *Server) adoptReport(dir string, p *process.Process) (run.Report, error) {
	deadline := time.Now().Add(startLimit)
	for {
		report, ok, err := run.ReadRunning(dir)
		if err != nil || ok {
			return report, err
		}
		select {
		case <-p.Done():
			return report, process.ErrGone
		case <-time.After(adoptInterval):
		}
		if time.Now().After(deadline) {
			return report, fmt.Errorf("the container's supervisor did not start it within %s", startLimit)
		}
	}
}

// adoptInterval is the pause between two looks at a container that is being started.
const adoptInterval = 20 * time.Millisecond
