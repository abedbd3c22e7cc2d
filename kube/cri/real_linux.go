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

// Images is the source of images for real containers. *images.Store implements it.
type Images interface {
	// Status returns an existing image by a name or its id, or images.ErrNotFound.
	Status(ctx context.Context, ref string) (*images.Image, error)
	// Pull returns an image, and gets it first if it is missing.
	Pull(ctx context.Context, ref string, auth *images.Auth) (*images.Image, error)
	// Remove removes an image; one that does not exist is not an error.
	Remove(ctx context.Context, ref string) error
	// List lists the existing images.
	List(ctx context.Context) ([]images.Image, error)
	// Usage returns the store's disk usage.
	Usage(ctx context.Context) (images.Usage, error)
}

// Bounds of containers.
const (
	startLimit = 2 * time.Minute // from the supervisor's start to its report
	maxReport  = 1 << 20
	// startErrorCode is the exit code of a container whose program could not be started, as in other runtimes.
	startErrorCode = 128
)

// runnerEnv is the environment of supervisors. Supervisors do little, so these settings save memory at the cost of
// speed.
var runnerEnv = []string{"GOMAXPROCS=1", "GOGC=50"}

// startReal starts a container from its image. The goroutine that supervises the container closes the log; if nothing
// was started, startReal closes it.
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
	volumes, err := s.volumeImages(ctx, c.config)
	if err != nil {
		return err
	}
	pid, err := s.pidNamespace(c, sb)
	if err != nil {
		return err
	}
	spec, err := realSpec(sb.config, s.spaces(sb.ID), c.config, img, volumes, pid)
	if err != nil {
		return err
	}
	if mounts != nil {
		spec.Mounts = append(withSource(spec.Mounts), mounts...)
	}
	if err := s.makeGroups(c, spec); err != nil {
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
	// As with components: if this fails, the container runs, and the kubelet's next attempt finds it running.
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

// launch starts capstan-run and waits for its report. out receives the output of capstan-run and its program; nil
// discards it.
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

// readReport reads capstan-run's report of a start, or returns the error in it.
func readReport(r *os.File) (run.Report, error) {
	var report run.Report
	r.SetReadDeadline(time.Now().Add(startLimit)) // pipes support deadlines
	data, err := io.ReadAll(io.LimitReader(r, maxReport))
	if err != nil {
		return report, fmt.Errorf("waiting for the container to start: %w", err)
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return report, errors.New("the container's supervisor exited without a report")
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
				"the container asks for the PID namespace of container %q, which is not running in this pod",
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

// containerStreams returns the streams to log: the program's output, or its terminal.
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

// takeTerminal takes over the terminal of a program that capstan-run has started. number is the terminal's descriptor
// in capstan-run's process, which capstan-run has reported. takeTerminal confirms the takeover with SIGUSR2.
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

// stopReal sends a container's program its stop signal, kills it after grace, and waits until the supervisor has ended.
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
	// The supervisor records how the program ended, and exits.
	select {
	case <-p.Done():
		return nil
	case <-time.After(supervisorWait):
		return p.Stop(unix.SIGKILL, 0)
	}
}

// supervisorWait is how long a supervisor may take to exit after its program.
const supervisorWait = 10 * time.Second

// realExit returns how a real container ended. If its supervisor was killed, the kernel kills the container too;
// realExit makes sure of that.
func (s *Server) realExit(c *container, exit process.Exit) process.Exit {
	if written, ok, err := run.ReadExit(s.store.containerDir(c.ID)); err == nil && ok {
		return process.Exit{Code: written.Code, At: time.Unix(0, written.At)}
	}
	report := c.report
	if report.PID == 0 {
		report, _, _ = run.ReadRunning(s.store.containerDir(c.ID)) // missing if the container was never started
	}
	if report.PID != 0 {
		if err := process.SignalOne(report.PID, report.Started, unix.SIGKILL); err != nil && !errors.Is(err,
			process.ErrGone) {
			s.log.Error("killing a container whose supervisor is gone", "container", c.name(), "error", err)
		}
	}
	return exit
}

// realMessage returns advice about a real container that failed by itself: which user ids of the image the host can't
// map, and what to install. It returns "" if the host lacks nothing.
func (s *Server) realMessage(c *container, code int32) string {
	const firstSignal = 128
	if code == 0 || code >= firstSignal {
		return ""
	}
	report := c.report
	if report.PID == 0 {
		report, _, _ = run.ReadRunning(s.store.containerDir(c.ID)) // missing if the container was never started
	}
	return report.Advice
}

// adoptReport reads the report of an adopted container. Its supervisor may still be writing it.
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

// adoptInterval is the pause between two checks of a container that is still starting.
const adoptInterval = 20 * time.Millisecond
