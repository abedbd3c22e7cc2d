package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox creates a sandbox: a record and, unless it uses the host's network, an address.
func (s *Server) RunPodSandbox(
	ctx context.Context, req *runtimeapi.RunPodSandboxRequest,
) (*runtimeapi.RunPodSandboxResponse, error) {
	if req.GetConfig().GetMetadata() == nil {
		return nil, status.Error(codes.InvalidArgument, "the sandbox has no metadata")
	}
	sb := &sandbox{
		ID:        newID(),
		Handler:   req.RuntimeHandler,
		CreatedAt: time.Now().UnixNano(),
		Ready:     true,
		config:    req.Config,
	}
	if s.source(ctx) != nil {
		sb.Real = true
		if err := s.makePod(sb); err != nil {
			return nil, err
		}
	}
	s.opts.Step("record")
	if err := s.addSandbox(sb); err != nil {
		if sb.Real {
			err = errors.Join(err, s.unmakePod(sb))
		}
		return nil, err
	}
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: sb.ID}, nil
}

// addSandbox records a sandbox. If it is hollow and does not use the host's network, addSandbox gives it an address.
func (s *Server) addSandbox(sb *sandbox) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sb.Real && !sb.hostNetwork() {
		sb.IPs = s.freeAddresses(sb.config.Metadata.Uid)
	}
	if err := s.store.saveSandbox(sb); err != nil {
		return err
	}
	s.sandboxes[sb.ID] = sb
	s.emit(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, sb.ID, sb)
	s.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, sb.ID, sb)
	return nil
}

// StopPodSandbox stops all containers of a sandbox, without grace, and then the sandbox. It succeeds if the sandbox has
// already been stopped or does not exist.
func (s *Server) StopPodSandbox(_ context.Context,
	req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	for _, c := range s.containersOf(req.PodSandboxId) {
		if err := s.stop(c, 0); err != nil {
			return nil, err
		}
	}
	if err := s.closeSandbox(req.PodSandboxId); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// closeSandbox marks a sandbox as stopped, and removes what the containers of a real pod shared. The containers must
// have ended.
func (s *Server) closeSandbox(id string) error {
	s.mu.Lock()
	sb := s.sandboxes[id]
	if sb != nil && sb.Ready {
		sb.Ready = false
		if err := s.store.saveSandbox(sb); err != nil {
			s.mu.Unlock()
			return err
		}
		s.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, sb.ID, sb)
	}
	s.mu.Unlock()
	if sb == nil || !sb.Real {
		return nil
	}
	s.opts.Step("unmake")
	return s.unmakePod(sb)
}

// RemovePodSandbox removes a sandbox and its containers. It succeeds if the sandbox does not exist.
func (s *Server) RemovePodSandbox(ctx context.Context,
	req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if _, err := s.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: req.PodSandboxId}); err != nil {
		return nil, err
	}
	for _, c := range s.containersOf(req.PodSandboxId) {
		if err := s.remove(c); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sb := s.sandboxes[req.PodSandboxId]
	if sb == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	for _, c := range s.containers {
		if c.Sandbox == sb.ID {
			return nil, status.Errorf(codes.FailedPrecondition, "container %s was made in the meantime: try again", c.ID)
		}
	}
	if err := s.store.removeSandbox(sb.ID); err != nil {
		return nil, err
	}
	delete(s.sandboxes, sb.ID)
	s.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, sb.ID, sb)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns the status of a sandbox.
func (s *Server) PodSandboxStatus(_ context.Context,
	req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sb := s.sandboxes[req.PodSandboxId]
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "there is no sandbox %s", req.PodSandboxId)
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: sandboxStatus(sb), Timestamp: time.Now().UnixNano()}
	for _, c := range s.containers {
		if c.Sandbox == sb.ID {
			resp.ContainersStatuses = append(resp.ContainersStatuses, containerStatus(c))
		}
	}
	return resp, nil
}

// ListPodSandbox lists sandboxes.
func (s *Server) ListPodSandbox(_ context.Context,
	req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, sb := range s.sandboxes {
		f := req.GetFilter()
		if f.GetId() != "" && f.GetId() != sb.ID ||
			f.GetState() != nil && f.GetState().State != sandboxState(sb) ||
			!selects(f.GetLabelSelector(), sb.config.Labels) {
			continue
		}
		resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
			Id:             sb.ID,
			Metadata:       sb.config.Metadata,
			State:          sandboxState(sb),
			CreatedAt:      sb.CreatedAt,
			Labels:         sb.config.Labels,
			Annotations:    sb.config.Annotations,
			RuntimeHandler: sb.Handler,
		})
	}
	return resp, nil
}

// UpdatePodSandboxResources sets the processor weight of a pod that has control groups.
func (s *Server) UpdatePodSandboxResources(_ context.Context,
	req *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	s.mu.RLock()
	sb := s.sandboxes[req.PodSandboxId]
	s.mu.RUnlock()
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "there is no sandbox %s", req.PodSandboxId)
	}
	if err := s.opts.Groups.SetPod(sb.ID, podLimits(req.Resources)); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

// sandboxStatus returns the status of a sandbox. The caller holds the server's lock.
func sandboxStatus(sb *sandbox) *runtimeapi.PodSandboxStatus {
	st := &runtimeapi.PodSandboxStatus{
		Id:             sb.ID,
		Metadata:       sb.config.Metadata,
		State:          sandboxState(sb),
		CreatedAt:      sb.CreatedAt,
		Network:        &runtimeapi.PodSandboxNetworkStatus{},
		Labels:         sb.config.Labels,
		Annotations:    sb.config.Annotations,
		RuntimeHandler: sb.Handler,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: sb.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	if len(sb.IPs) > 0 {
		st.Network.Ip = sb.IPs[0]
		for _, ip := range sb.IPs[1:] {
			st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return st
}

func sandboxState(sb *sandbox) runtimeapi.PodSandboxState {
	if sb.Ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// containersOf returns the containers of a sandbox.
func (s *Server) containersOf(sandbox string) []*container {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*container
	for _, c := range s.containers {
		if c.Sandbox == sandbox {
			all = append(all, c)
		}
	}
	return all
}

// selects reports whether labels match the selector.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// find returns a container by its id.
func (s *Server) find(id string) (*container, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.containers[id]
	if c == nil {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("there is no container %s", id))
	}
	return c, nil
}
