package cri

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/table"
)

// connectPod gives a real pod its own network, unless it uses the host's.
func (s *Server) connectPod(sb *sandbox) error {
	if sb.hostNetwork() {
		return nil
	}
	ports, err := hostPorts(sb.config.PortMappings)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	addresses, err := s.net.Add(sb.ID, s.spaces(sb.ID).path("net"), ports)
	if errors.Is(err, network.ErrNoRange) {
		return status.Error(codes.Unavailable, err.Error())
	}
	if err != nil {
		return fmt.Errorf("connecting the pod: %w", err)
	}
	sb.IPs, sb.Wired = nil, true
	for _, a := range addresses {
		sb.IPs = append(sb.IPs, a.String())
	}
	return nil
}

// disconnectPod removes a pod's network and records that its addresses are free. It may be called again.
func (s *Server) disconnectPod(sb *sandbox) error {
	if err := s.net.Remove(sb.ID); err != nil {
		return err
	}
	s.opts.Step("free")
	s.mu.Lock()
	defer s.mu.Unlock()
	was := sb.Wired
	sb.Wired = false
	if !was || s.sandboxes[sb.ID] != sb {
		return nil // it had no network, or the pod was not recorded yet
	}
	return s.store.saveSandbox(sb)
}

// hostPorts returns the host ports that a pod asks for. A mapping without a host port asks for none.
func hostPorts(mappings []*runtimeapi.PortMapping) ([]network.HostPort, error) {
	protocols := map[runtimeapi.Protocol]table.Protocol{
		runtimeapi.Protocol_TCP: table.TCP, runtimeapi.Protocol_UDP: table.UDP, runtimeapi.Protocol_SCTP: table.SCTP,
	}
	var ports []network.HostPort
	for _, m := range mappings {
		if m.HostPort == 0 {
			continue
		}
		port := network.HostPort{Protocol: protocols[m.Protocol], Port: uint16(m.HostPort), Pod: uint16(m.ContainerPort)}
		if port.Protocol == 0 || int32(port.Port) != m.HostPort || int32(port.Pod) != m.ContainerPort || port.Pod == 0 {
			return nil, fmt.Errorf("%v is not a hostPort", m)
		}
		if m.HostIp != "" {
			var err error
			if port.Host, err = netip.ParseAddr(m.HostIp); err != nil {
				return nil, fmt.Errorf("the hostIP %q of a hostPort is not an address: %w", m.HostIp, err)
			}
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// networkCondition reports why real pods can't have a network yet. The kubelet then starts only pods with the host's
// network.
func (s *Server) networkCondition(ctx context.Context) *runtimeapi.RuntimeCondition {
	condition := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
	if s.source(ctx) == nil {
		return condition
	}
	switch err := s.net.Ready(); {
	case errors.Is(err, network.ErrNoRange):
		condition.Status, condition.Reason, condition.Message = false, "PodRangeUnknown", err.Error()
	case err != nil:
		condition.Status, condition.Reason, condition.Message = false, "PodNetworkFailed", err.Error()
	}
	return condition
}

// rangesName names the record of the Node's ranges for real pods.
const rangesName = "network"

// setRanges prepares the host for real pods of the Node's ranges.
func (s *Server) setRanges(cidrs []string) error {
	ranges, err := network.ParseRanges(cidrs)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.store.saveList(rangesName, cidrs); err != nil {
		return err
	}
	return s.net.SetRanges(ranges)
}

// restorePods removes leftovers of pods that were never recorded, and returns which of the others are connected.
func (s *Server) restorePods() (map[string]bool, error) {
	dirs, err := filepath.Glob(filepath.Join(s.store.dir, "pods", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if s.sandboxes[filepath.Base(dir)] != nil {
			continue
		}
		s.log.Warn("removing what is left of a pod that was being made", "sandbox", filepath.Base(dir))
		if err := (podSpaces{dir}).remove(); err != nil {
			return nil, err
		}
	}
	if s.opts.Images == nil || s.opts.Unable != nil {
		return nil, nil
	}
	ranges, err := network.ParseRanges(s.store.list(rangesName))
	if err != nil {
		s.log.Error("the Node's pod range is not usable", "error", err)
	}
	connected := map[string]bool{}
	var pods []network.Pod
	for _, sb := range s.sandboxes {
		if !sb.Wired {
			continue
		}
		p := network.Pod{ID: sb.ID, Space: s.spaces(sb.ID).path("net")}
		for _, ip := range sb.IPs {
			if a, err := netip.ParseAddr(ip); err == nil {
				p.Addresses = append(p.Addresses, a)
			}
		}
		if p.Ports, err = hostPorts(sb.config.PortMappings); err != nil {
			return nil, err
		}
		pods = append(pods, p)
		connected[sb.ID] = true
	}
	lost, err := s.net.Restore(ranges, pods)
	if err != nil {
		return nil, err
	}
	for _, id := range lost {
		s.log.Warn("a pod has lost its network", "sandbox", id)
		connected[id] = false
	}
	return connected, nil
}
