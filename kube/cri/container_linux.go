package cri

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
)

// CreateContainer records a container. It refuses one that can't run as requested, with the reason.
func (s *Server) CreateContainer(
	ctx context.Context, req *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	config := req.GetConfig()
	if config.GetMetadata() == nil || config.GetImage() == nil {
		return nil, status.Error(codes.InvalidArgument, "the container has no metadata or no image")
	}
	// The kubelet passes the id that ImageStatus returned, and also the image's name as in the pod's spec.
	ref := config.Image.Image
	if known := s.reference(ref); known != "" {
		ref = known
	} else if asked := config.Image.UserSpecifiedImage; asked != "" {
		ref = asked
	}
	c := &container{
		ID:        newID(),
		Sandbox:   req.PodSandboxId,
		Image:     ref,
		ImageID:   imageID(ref),
		State:     runtimeapi.ContainerState_CONTAINER_CREATED,
		CreatedAt: time.Now().UnixNano(),
		config:    config,
	}
	if config.LogPath != "" && req.GetSandboxConfig().GetLogDirectory() != "" {
		c.LogPath = filepath.Join(req.SandboxConfig.LogDirectory, config.LogPath)
	}
	if err := s.fromImage(ctx, c, config.Image); err != nil {
		return nil, err
	}
	if c.Real {
		if err := checkReal(config); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if _, err := s.volumeImages(ctx, config); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sb := s.sandboxes[req.PodSandboxId]
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "there is no sandbox %s", req.PodSandboxId)
	}
	if !sb.Ready {
		return nil, status.Errorf(codes.FailedPrecondition, "sandbox %s was stopped", sb.ID)
	}
	if _, runs := component.Runs(ref, sb.config.Annotations); runs {
		if err := checkMounts(config.Mounts); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	if !c.Real {
		if err := s.rememberImage(ref); err != nil {
			return nil, err
		}
	}
	if err := s.store.saveContainer(c); err != nil {
		return nil, err
	}
	s.containers[c.ID] = c
	s.emit(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, c.ID, sb)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.ID}, nil
}

// StartContainer starts a container.
func (s *Server) StartContainer(_ context.Context,
	req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	c, err := s.find(req.ContainerId)
	if err != nil {
		return nil, err
	}
	if err := s.start(c); err != nil {
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer stops a container with its stop signal, and with SIGKILL after the timeout (in seconds). It may be
// called again.
func (s *Server) StopContainer(_ context.Context,
	req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	s.mu.RLock()
	c := s.containers[req.ContainerId]
	s.mu.RUnlock()
	if c == nil {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if err := s.stop(c, time.Duration(max(req.Timeout, 0))*time.Second); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer removes a container and stops it first if it runs. It may be called again.
func (s *Server) RemoveContainer(_ context.Context,
	req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.RLock()
	c := s.containers[req.ContainerId]
	s.mu.RUnlock()
	if c == nil {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if err := s.stop(c, 0); err != nil {
		return nil, err
	}
	if err := s.remove(c); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ContainerStatus returns the status of a container.
func (s *Server) ContainerStatus(_ context.Context,
	req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "there is no container %s", req.ContainerId)
	}
	return &runtimeapi.ContainerStatusResponse{Status: containerStatus(c)}, nil
}

// ListContainers lists containers.
func (s *Server) ListContainers(_ context.Context,
	req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range s.containers {
		f := req.GetFilter()
		if f.GetId() != "" && f.GetId() != c.ID ||
			f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.Sandbox ||
			f.GetState() != nil && f.GetState().State != c.State ||
			!selects(f.GetLabelSelector(), c.config.Labels) {
			continue
		}
		resp.Containers = append(resp.Containers, &runtimeapi.Container{
			Id:           c.ID,
			PodSandboxId: c.Sandbox,
			Metadata:     c.config.Metadata,
			Image:        &runtimeapi.ImageSpec{Image: c.Image},
			ImageRef:     c.ImageID,
			ImageId:      c.ImageID,
			State:        c.State,
			CreatedAt:    c.CreatedAt,
			Labels:       c.config.Labels,
			Annotations:  c.config.Annotations,
		})
	}
	return resp, nil
}

// UpdateContainerResources records the new resources and sets the limits of a running container.
func (s *Server) UpdateContainerResources(_ context.Context,
	req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	c, err := s.find(req.ContainerId)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Real && c.process != nil {
		if err := s.opts.Groups.SetContainer(c.Sandbox, c.ID, limitsOf(req.Linux)); err != nil {
			return nil, err
		}
	}
	if c.config.Linux == nil {
		c.config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	c.config.Linux.Resources = req.Linux
	if err := s.store.saveContainer(c); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ReopenContainerLog reopens the log after the kubelet moved it away.
func (s *Server) ReopenContainerLog(_ context.Context,
	req *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	c, err := s.find(req.ContainerId)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	state, log := c.State, c.log
	s.mu.RUnlock()
	if state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is not running", c.ID)
	}
	if log != nil {
		if err := log.Reopen(); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

// containerStatus returns the status of a container. The caller holds the server's lock.
func containerStatus(c *container) *runtimeapi.ContainerStatus {
	st := &runtimeapi.ContainerStatus{
		Id:          c.ID,
		Metadata:    c.config.Metadata,
		State:       c.State,
		CreatedAt:   c.CreatedAt,
		StartedAt:   c.StartedAt,
		FinishedAt:  c.FinishedAt,
		ExitCode:    c.ExitCode,
		Image:       &runtimeapi.ImageSpec{Image: c.Image, UserSpecifiedImage: c.config.Image.UserSpecifiedImage},
		ImageRef:    c.ImageID,
		ImageId:     c.ImageID,
		Reason:      c.Reason,
		Message:     c.Message,
		Labels:      c.config.Labels,
		Annotations: c.config.Annotations,
		Mounts:      c.config.Mounts,
		LogPath:     c.LogPath,
		StopSignal:  c.config.StopSignal,
	}
	if c.Real && c.report.PID != 0 {
		user := c.report.User
		groups := append(slices.Clone(user.Groups), user.GID) // as other runtimes report it
		slices.Sort(groups)
		st.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: user.UID, Gid: user.GID, SupplementalGroups: slices.Compact(groups),
		}}
	}
	if resources := c.config.GetLinux().GetResources(); resources != nil {
		st.Resources = &runtimeapi.ContainerResources{Linux: resources}
	}
	return st
}

// stopSignal returns the container's stop signal, by default SIGTERM.
func stopSignal(c *container) unix.Signal {
	name := c.StopSignal
	if asked := c.config.StopSignal; asked != runtimeapi.Signal_RUNTIME_DEFAULT {
		name = asked.String()
	}
	if signal := signalNumber(name); signal != 0 {
		return signal
	}
	return unix.SIGTERM
}

// First and last real-time signals, as programs with the C library number them.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// signalNumber returns the number of a signal, or 0 for an unknown one. It accepts SIGTERM, TERM, 15, an image's
// SIGRTMIN+3 and the CRI's SIGRTMINPLUS3.
func signalNumber(name string) unix.Signal {
	name = strings.ToUpper(name)
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= lastRealTime {
		return unix.Signal(n)
	}
	if name != "" && !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	for prefix, base := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		offset := 0
		if rest != "" {
			var err error
			rest = strings.NewReplacer("PLUS", "", "MINUS", "-", "+", "").Replace(rest)
			if offset, err = strconv.Atoi(rest); err != nil {
				return 0
			}
		}
		if n := base + offset; n >= firstRealTime && n <= lastRealTime {
			return unix.Signal(n)
		}
	}
	return unix.SignalNum(name)
}
