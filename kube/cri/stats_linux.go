package cri

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// tick is the unit of processor time in /proc/PID/stat.
const tick = 10 * time.Millisecond

// usage is a process's use of resources; zero for hollow containers.
type usage struct {
	cpu    time.Duration // since the start of the process
	memory uint64        // bytes in memory, without pages of files
}

// ContainerStats returns the resource usage of one container.
func (s *Server) ContainerStats(_ context.Context,
	req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "there is no container %s", req.ContainerId)
	}
	return &runtimeapi.ContainerStatsResponse{Stats: s.containerStats(c)}, nil
}

// ListContainerStats returns the resource usage of the running containers.
func (s *Server) ListContainerStats(_ context.Context,
	req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	resp := &runtimeapi.ListContainerStatsResponse{}
	f := req.GetFilter()
	for _, c := range s.containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING &&
			(f.GetId() == "" || f.GetId() == c.ID) &&
			(f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.Sandbox) &&
			selects(f.GetLabelSelector(), c.config.Labels) {
			resp.Stats = append(resp.Stats, s.containerStats(c))
		}
	}
	return resp, nil
}

// PodSandboxStats returns the resource usage of one pod's containers.
func (s *Server) PodSandboxStats(_ context.Context,
	req *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sb := s.sandboxes[req.PodSandboxId]
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "there is no sandbox %s", req.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.sandboxStats(sb)}, nil
}

// ListPodSandboxStats returns the resource usage of running pods' containers.
func (s *Server) ListPodSandboxStats(_ context.Context,
	req *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	resp := &runtimeapi.ListPodSandboxStatsResponse{}
	f := req.GetFilter()
	for _, sb := range s.sandboxes {
		if sb.Ready && (f.GetId() == "" || f.GetId() == sb.ID) && selects(f.GetLabelSelector(), sb.config.Labels) {
			resp.Stats = append(resp.Stats, s.sandboxStats(sb))
		}
	}
	return resp, nil
}

func (s *Server) containerStats(c *container) *runtimeapi.ContainerStats {
	now := time.Now().UnixNano()
	u := s.usage(c)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.ID, Metadata: c.config.Metadata, Labels: c.config.Labels, Annotations: c.config.Annotations,
		},
		Cpu:    cpuUsage(now, u),
		Memory: memoryUsage(now, u),
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp:  now,
			FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: s.opts.State},
			UsedBytes:  &runtimeapi.UInt64Value{},
			InodesUsed: &runtimeapi.UInt64Value{},
		},
	}
}

func (s *Server) sandboxStats(sb *sandbox) *runtimeapi.PodSandboxStats {
	now := time.Now().UnixNano()
	var total usage
	var containers []*runtimeapi.ContainerStats
	for _, c := range s.containers {
		if c.Sandbox != sb.ID || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		u := s.usage(c)
		total.cpu += u.cpu
		total.memory += u.memory
		containers = append(containers, s.containerStats(c))
	}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: sb.ID, Metadata: sb.config.Metadata, Labels: sb.config.Labels, Annotations: sb.config.Annotations,
		},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu:    cpuUsage(now, total),
			Memory: memoryUsage(now, total),
			Process: &runtimeapi.ProcessUsage{
				Timestamp: now, ProcessCount: &runtimeapi.UInt64Value{Value: uint64(len(containers))},
			},
			Containers: containers,
		},
	}
}

func cpuUsage(now int64, u usage) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(u.cpu)}}
}

func memoryUsage(now int64, u usage) *runtimeapi.MemoryUsage {
	return &runtimeapi.MemoryUsage{
		Timestamp:       now,
		WorkingSetBytes: &runtimeapi.UInt64Value{Value: u.memory},
		UsageBytes:      &runtimeapi.UInt64Value{Value: u.memory},
		RssBytes:        &runtimeapi.UInt64Value{Value: u.memory},
	}
}

// usage reads the resource usage of a container's process. The result is zero if the container has no process, or if
// /proc shows another PID namespace.
func (s *Server) usage(c *container) usage {
	if c.process == nil || !s.ownProc {
		return usage{}
	}
	if c.Real {
		return s.realUsage(c)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.PID()))
	if err != nil {
		return usage{}
	}
	memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.PID()))
	if err != nil {
		return usage{}
	}
	alone, shared := parseMemory(string(memory))
	return usage{cpu: parseTime(string(stat)), memory: alone + shared}
}

// realUsage returns the usage of a real container as its control groups count it. For a value that they don't count,
// realUsage returns the sum over the container's processes.
func (s *Server) realUsage(c *container) usage {
	cpu, hasCPU := s.opts.Groups.CPU(c.Sandbox, c.ID)
	memory, hasMemory := s.opts.Groups.Memory(c.Sandbox, c.ID)
	if !hasCPU || !hasMemory {
		sum := s.uses.of(c.report.PID)
		if !hasCPU {
			cpu = sum.cpu
		}
		if !hasMemory {
			memory = sum.memory
		}
	}
	return usage{cpu: cpu, memory: memory}
}

// parseEnded reads the processor time of reaped children (fields 16 and 17) from /proc/PID/stat.
func parseEnded(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[13], 10, 64) // the kernel always writes numbers
	system, _ := strconv.ParseInt(fields[14], 10, 64)
	return time.Duration(user+system) * tick
}

// parseTime reads user and system time (fields 14 and 15) from /proc/PID/stat.
func parseTime(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64) // the kernel always writes numbers
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}
