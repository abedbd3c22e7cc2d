package cri

import (
	"errors"
	"io/fs"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cgroup"
	"github.com/capstan-dev/capstan/kube/run"
)

// oomKilled is the reason for the end of a container that the kernel killed because it exceeded its memory limit.
const oomKilled = "OOMKilled"

// openGroups opens the control groups of a host. It returns nil without an error if the host has none.
func openGroups(dir string) (*cgroup.Tree, error) {
	tree, err := cgroup.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tree, err
}

// limitsOf returns the limits of a container.
func limitsOf(r *runtimeapi.LinuxContainerResources) cgroup.Limits {
	return cgroup.Limits{
		Shares: r.GetCpuShares(), Quota: r.GetCpuQuota(), Period: r.GetCpuPeriod(), Memory: r.GetMemoryLimitInBytes(),
	}
}

// podLimits returns the limits of all containers of a pod together. Of the totals that the kubelet sends for a pod,
// podLimits uses only the CPU weight, because the other totals leave out containers without a limit.
func podLimits(r *runtimeapi.LinuxContainerResources) cgroup.Limits {
	return cgroup.Limits{Shares: r.GetCpuShares()}
}

// makeGroups creates the control groups of a container. The container's program starts in these groups and can read
// them. As in other runtimes, the program of a privileged container can also write them, and sees the host's tree.
func (s *Server) makeGroups(c *container, spec *run.Spec) error {
	s.mu.RLock()
	limits := limitsOf(c.config.GetLinux().GetResources())
	s.mu.RUnlock()
	var err error
	if spec.Groups, err = s.opts.Groups.MakeContainer(c.Sandbox, c.ID, limits); err != nil {
		return err
	}
	for _, shown := range s.opts.Groups.Shown(c.Sandbox, c.ID) {
		spec.GroupMounts = append(spec.GroupMounts, run.GroupMount{Source: shown.Dir, Names: shown.Names})
	}
	spec.OwnGroups = len(spec.Groups) > 0 && !c.config.GetLinux().GetSecurityContext().GetPrivileged()
	return nil
}

// dropGroups removes the control groups of a container that has ended.
func (s *Server) dropGroups(c *container) {
	if err := s.opts.Groups.RemoveContainer(c.Sandbox, c.ID); err != nil {
		s.log.Error("removing the control groups of a container", "container", c.name(), "error", err)
	}
}

// realReason returns why a real container ended.
func (s *Server) realReason(c *container, code int32) string {
	if code != 0 && s.opts.Groups.Killed(c.Sandbox, c.ID) {
		return oomKilled
	}
	return reasonOf(code)
}

// sweepGroups removes the control groups of pods that the server does not know.
func (s *Server) sweepGroups() error {
	pods, err := s.opts.Groups.Pods()
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if s.sandboxes[pod] == nil {
			if err := s.opts.Groups.RemovePod(pod); err != nil {
				return err
			}
		}
	}
	return nil
}
