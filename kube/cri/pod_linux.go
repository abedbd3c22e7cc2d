package cri

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/run"
)

// pause is the first process of a PID namespace that a pod's containers share.
type pause struct {
	process *process.Process
	report  run.Report
}

// podToken distinguishes the tokens of pause processes from those of containers.
const podToken = "pod-"

func (s *Server) spaces(sandbox string) podSpaces {
	return podSpaces{filepath.Join(s.store.dir, "pods", sandbox)}
}

func (s *Server) pauseDir(sandbox string) string {
	return filepath.Join(s.store.dir, "pods", sandbox, "pause")
}

// makePod creates what the containers of a pod share.
func (s *Server) makePod(sb *sandbox) error {
	s.opts.Step("groups")
	if err := s.opts.Groups.MakePod(sb.ID, podLimits(sb.config.GetLinux().GetResources())); err != nil {
		return errors.Join(err, s.opts.Groups.RemovePod(sb.ID))
	}
	s.opts.Step("namespaces")
	spaces := s.spaces(sb.ID)
	if err := spaces.make(sb.config); err != nil {
		return errors.Join(err, s.opts.Groups.RemovePod(sb.ID))
	}
	err := s.connectPod(sb)
	if err == nil && sb.namespaces().GetPid() == runtimeapi.NamespaceMode_POD {
		s.opts.Step("pause")
		err = s.startPause(sb)
	}
	if err != nil {
		return errors.Join(err, s.disconnectPod(sb), spaces.remove(), s.opts.Groups.RemovePod(sb.ID))
	}
	return nil
}

func (s *Server) startPause(sb *sandbox) error {
	dir := s.pauseDir(sb.ID)
	if err := mkdir(dir); err != nil {
		return err
	}
	host := run.Namespaces{Net: run.Host, IPC: run.Host, UTS: run.Host}
	if err := run.WriteSpec(dir, &run.Spec{Pause: true, Namespaces: host}); err != nil {
		return err
	}
	p, report, err := s.launch(s.token(podToken+sb.ID), nil, "container", dir)
	if err != nil {
		return fmt.Errorf("making the pod's PID namespace: %w", err)
	}
	s.watchPause(sb, &pause{p, report})
	return nil
}

// watchPause stops a pod whose pause process ended: the kernel has killed everything in that PID namespace.
func (s *Server) watchPause(sb *sandbox, held *pause) {
	sb.pause = held
	s.supervisors.Go(func() {
		select {
		case <-s.closing:
			return
		case <-held.process.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if sb.pause != held || !sb.Ready {
			return
		}
		sb.Ready = false
		s.log.Warn("the first process of a pod was killed", "sandbox", sb.ID)
		if err := s.store.saveSandbox(sb); err != nil {
			s.log.Error("recording the end of a pod", "sandbox", sb.ID, "error", err)
		}
		s.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, sb.ID, sb)
	})
}

// adoptPause takes over a pod's pause process.
func (s *Server) adoptPause(sb *sandbox, token string, pid int) error {
	p, err := process.Adopt(token, pid)
	if err != nil {
		return err
	}
	report, err := s.adoptReport(s.pauseDir(sb.ID), p)
	if err != nil {
		p.Close()
		return err
	}
	s.watchPause(sb, &pause{p, report})
	return nil
}

// unmakePod removes what the containers of a pod shared. The containers must have ended. It may be called again.
func (s *Server) unmakePod(sb *sandbox) error {
	s.mu.Lock()
	held := sb.pause
	sb.pause = nil
	s.mu.Unlock()
	if held != nil {
		err := process.SignalOne(held.report.PID, held.report.Started, unix.SIGKILL)
		if errors.Is(err, process.ErrGone) {
			err = nil
		}
		err = errors.Join(err, held.process.Stop(unix.SIGKILL, supervisorWait))
		held.process.Close()
		if err != nil {
			return err
		}
	}
	if err := s.disconnectPod(sb); err != nil {
		return err
	}
	s.opts.Step("no namespaces")
	if err := s.spaces(sb.ID).remove(); err != nil {
		return err
	}
	s.opts.Step("no groups")
	return s.opts.Groups.RemovePod(sb.ID)
}

// namespaces returns the pod's namespace options, which say what it shares with the host.
func (sb *sandbox) namespaces() *runtimeapi.NamespaceOption {
	return sb.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}
