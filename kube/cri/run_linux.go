package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/cri/process"
)

// outputWait is how long to keep reading after a process has ended, in case something that it started still holds its
// output.
const outputWait = time.Second

// start starts a created container.
func (s *Server) start(c *container) error {
	c.op.Lock()
	defer c.op.Unlock()
	s.mu.RLock()
	state, sb := c.State, s.sandboxes[c.Sandbox]
	var annotations map[string]string
	if sb != nil {
		annotations = sb.config.Annotations
	}
	gone := sb == nil || !sb.Ready || s.containers[c.ID] == nil
	s.mu.RUnlock()
	if gone {
		return status.Errorf(codes.FailedPrecondition, "the sandbox of container %s was stopped", c.ID)
	}
	if state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return status.Errorf(codes.FailedPrecondition, "container %s was started before", c.ID)
	}
	log, err := logfile.Open(c.LogPath)
	if err != nil {
		return err
	}
	image, runs := component.Runs(c.Image, annotations)
	switch {
	case runs:
		err = s.startComponent(c, image, log)
	case c.Real:
		err = s.startReal(c, sb, log)
	default:
		err = s.startHollow(c, sb, log)
	}
	if err != nil {
		return fmt.Errorf("starting container %s: %w", c.name(), err)
	}
	return nil
}

// startHollow makes a container appear to run, or to have completed. It closes the log.
func (s *Server) startHollow(c *container, sb *sandbox, log *logfile.Log) error {
	line := "This container is hollow: this host runs only control plane components, and nothing of " + c.Image + "."
	if err := errors.Join(log.Line(logfile.Stdout, line), log.Close()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixNano()
	c.StartedAt = now
	c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	ends := slices.Contains(strings.Split(sb.config.Annotations[component.EndsAnnotation], ","),
		c.config.GetMetadata().GetName())
	if ends {
		c.State = runtimeapi.ContainerState_CONTAINER_EXITED
		c.FinishedAt = now
		c.Reason = "Completed"
	}
	if err := s.store.saveContainer(c); err != nil {
		return err
	}
	s.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.ID, sb)
	if ends {
		s.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.ID, sb)
	}
	return nil
}

// startComponent starts the process of a component. The goroutine that supervises the process closes the log; without a
// process, startComponent closes it.
func (s *Server) startComponent(c *container, image component.Image, log *logfile.Log) error {
	started := false
	defer func() {
		if !started {
			log.Close()
		}
	}()
	binary, err := s.opts.Bundles.Find(image)
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	args, err := commandLine(image, c.config)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	out, err := openOutput(s.store.containerDir(c.ID))
	if err != nil {
		return err
	}
	defer out.closeWriters()
	defer func() {
		if !started {
			out.closeReaders()
		}
	}()
	p, err := process.Start(process.Spec{
		Token:  s.token(c.ID),
		Path:   binary,
		Args:   args,
		Env:    environment(s.opts.Env[image.Name], c.config.Envs),
		Dir:    c.config.WorkingDir,
		Stdout: out.writers[0],
		Stderr: out.writers[1],
	})
	if err != nil {
		return err
	}
	started = true
	s.mu.Lock()
	defer s.mu.Unlock()
	c.process, c.log, c.PID = p, log, p.PID()
	c.StartedAt = time.Now().UnixNano()
	c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	s.supervise(c, out.streams())
	// If this fails, the kubelet tries to start the container again, learns that it was started, and finds it running.
	if err := s.store.saveContainer(c); err != nil {
		return err
	}
	s.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.ID, s.sandboxes[c.Sandbox])
	return nil
}

// supervise copies the output of a container's process to its log and records its end. It works in the background until
// Close.
func (s *Server) supervise(c *container, streams []stream) {
	p, log := c.process, c.log
	c.ended = make(chan struct{})
	copied := make(chan struct{}, len(streams))
	for _, out := range streams {
		s.supervisors.Go(func() {
			log.Copy(out.name, out.from) // the container continues even if its output can't be logged
			copied <- struct{}{}
		})
	}
	s.supervisors.Go(func() {
		exited := false
		select {
		case <-p.Done():
			exited = true
			ctx, cancel := context.WithTimeout(context.Background(), outputWait)
			for range streams {
				select {
				case <-copied:
				case <-ctx.Done():
				}
			}
			cancel()
		case <-s.closing:
		}
		for _, out := range streams {
			out.from.Close() // stops the copying
		}
		log.Close()
		if exited {
			p.Close()
			s.exited(c, p.Exit())
		}
	})
}

// exited records the end of a container's process.
func (s *Server) exited(c *container, exit process.Exit) {
	reason, message := reasonOf(exit.Code), ""
	if c.Real {
		exit = s.realExit(c, exit)
		reason, message = s.realReason(c, exit.Code), s.realMessage(c, exit.Code)
		s.dropGroups(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(c.ended)
	c.process, c.log, c.terminal = nil, nil, nil
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = exit.At.UnixNano()
	c.ExitCode = exit.Code
	c.Reason, c.Message = reason, message
	s.log.Info("container ended", "container", c.name(), "exitCode", exit.Code)
	if err := s.store.saveContainer(c); err != nil {
		s.log.Error("recording the end of a container", "container", c.name(), "error", err)
	}
	s.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.ID, s.sandboxes[c.Sandbox])
}

// reasonOf returns the reason that the kubelet expects for an exit code.
func reasonOf(code int32) string {
	if code != 0 {
		return "Error"
	}
	return "Completed"
}

// stop stops a container and returns once its end is recorded.
func (s *Server) stop(c *container, grace time.Duration) error {
	c.op.Lock()
	defer c.op.Unlock()
	s.mu.RLock()
	p, ended := c.process, c.ended
	s.mu.RUnlock()
	if p != nil {
		end := p.Stop
		if c.Real {
			end = func(_ unix.Signal, grace time.Duration) error { return s.stopReal(c, p, grace) }
		}
		if err := end(stopSignal(c), grace); err != nil {
			return err
		}
		select {
		case <-ended: // at most outputWait after the process has ended
			return nil
		case <-s.closing:
			return status.Error(codes.Unavailable, "the server is closing")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.State == runtimeapi.ContainerState_CONTAINER_EXITED || s.containers[c.ID] == nil {
		return nil
	}
	running := c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = time.Now().UnixNano()
	if c.StartedAt == 0 {
		c.StartedAt = c.FinishedAt
	}
	c.Reason = "Completed"
	if err := s.store.saveContainer(c); err != nil {
		return err
	}
	if running {
		s.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.ID, s.sandboxes[c.Sandbox])
	}
	return nil
}

// remove forgets a stopped container and removes its files, except for the log, which belongs to the kubelet.
func (s *Server) remove(c *container) error {
	c.op.Lock()
	defer c.op.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers[c.ID] == nil {
		return nil
	}
	if c.process != nil {
		return status.Errorf(codes.FailedPrecondition, "container %s is still running", c.ID)
	}
	if err := s.store.removeContainer(c.ID); err != nil {
		return err
	}
	delete(s.containers, c.ID)
	s.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, c.ID, s.sandboxes[c.Sandbox])
	return nil
}
