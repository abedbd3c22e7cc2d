//go:build linux

package realtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/run"
)

// newLimited starts a host with control groups, or skips the test.
func newLimited(t *testing.T) *host {
	t.Helper()
	hosttest.Need(t)
	hosttest.NeedGroups(t)
	return newHost(t)
}

// limits returns a modification of a container that limits its memory, in MiB.
func limits(memory int64) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{
			CpuShares: 512, CpuQuota: 50000, CpuPeriod: 100000, MemoryLimitInBytes: memory << 20, OomScoreAdj: 500,
		}
	}
}

// group reads a file of a container's control groups.
func (h *host) group(file, pod, container string) string {
	h.t.Helper()
	controller, _, _ := strings.Cut(file, ".")
	data, err := os.ReadFile(filepath.Join(h.groups, controller, "pods", pod, container, file))
	h.must(err)
	return strings.TrimSpace(string(data))
}

func TestLimitsHold(t *testing.T) {
	h := newLimited(t)
	container, pod := h.run(limits(64), "wait")
	h.logged(container, "stdout F waiting")
	report, _, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	h.must(err)
	if in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", report.PID)); err != nil ||
		strings.Count(string(in), "/pods/"+pod+"/"+container) != 3 {
		t.Errorf("the program is not in the groups of its container: %s, %v", in, err)
	}
	for file, want := range map[string]string{
		"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "67108864",
	} {
		if got := h.group(file, pod, container); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if got := h.group("pids.max", pod, ""); got != "4096" {
		t.Errorf("the pod may have %s processes", got)
	}
	resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "cat=/proc/self/cgroup", "write=/sys/fs/cgroup/pids/new"},
	})
	h.must(err)
	if got := string(resp.Stdout); !strings.Contains(got, ":memory:/\n") || !strings.HasSuffix(got, "EROFS\n") {
		t.Errorf("a command is not in the groups of its container: %s", got)
	}
	_, err = h.UpdateContainerResources(h.ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: container, Linux: &runtimeapi.LinuxContainerResources{CpuQuota: -1, MemoryLimitInBytes: 128 << 20},
	})
	h.must(err)
	if got := h.group("memory.limit_in_bytes", pod, container); got != "134217728" {
		t.Errorf("after a change the limit is %s", got)
	}
	resp, err = h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "cat=/sys/fs/cgroup/memory/memory.limit_in_bytes"},
	})
	h.must(err)
	if string(resp.Stdout) != "134217728\n" {
		t.Errorf("after a change the container sees the limit %s", resp.Stdout)
	}
	_, err = h.UpdatePodSandboxResources(h.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: pod, Resources: &runtimeapi.LinuxContainerResources{CpuShares: 700, MemoryLimitInBytes: 1 << 20},
	})
	h.must(err)
	if got := h.group("cpu.shares", pod, ""); got != "700" {
		t.Errorf("after a change the pod's weight is %s", got)
	}
	status, err := h.Status(h.ctx, &runtimeapi.StatusRequest{Verbose: true})
	h.must(err)
	if got := status.Info["capstan.limits"]; got != `"cpu.memory.pids"` {
		t.Errorf("the status says that limits are %s", got)
	}
}

// TestLimitsSeenFromInside checks that a program finds its limits where it looks for them, and no other groups.
// Only a privileged program may try to write them.
func TestLimitsSeenFromInside(t *testing.T) {
	look := []string{
		"cat=/sys/fs/cgroup/cpu/cpu.shares", "cat=/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
		"cat=/sys/fs/cgroup/memory/memory.limit_in_bytes", "cat=/proc/self/cgroup",
		"write=/sys/fs/cgroup/memory/memory.limit_in_bytes", "write=/sys/fs/cgroup/memory/../new",
		"write=/sys/fs/cgroup/pids/cgroup.procs",
	}
	for name, c := range map[string]struct {
		privileged   bool
		group, write string
	}{
		"usual":      {false, "/", "EROFS"},
		"privileged": {true, "", "EINVAL"}, // the kernel refuses this text
	} {
		t.Run(name, func(t *testing.T) {
			h := newLimited(t)
			container, pod := h.run(func(config *runtimeapi.ContainerConfig) {
				limits(64)(config)
				config.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{}
				config.Linux.SecurityContext.Privileged = c.privileged
			}, look...)
			h.exited(container)
			if c.group == "" {
				c.group = "/pods/" + pod + "/" + container
			}
			got := h.log(container)
			for _, want := range []string{"F 512\n", "F 50000\n", "F 67108864\n"} {
				if !strings.Contains(got, want) {
					t.Errorf("it does not see %q", want)
				}
			}
			for _, controller := range []string{":cpu:", ":memory:", ":pids:"} {
				_, group, _ := strings.Cut(got, controller)
				if group, _, _ = strings.Cut(group, "\n"); !strings.HasSuffix(group, c.group) ||
					!c.privileged && group != "/" {
					t.Errorf("its group of %s is %q, want %s", controller, group, c.group)
				}
			}
			for _, file := range []string{"memory/memory.limit_in_bytes", "pids/cgroup.procs"} {
				if want := "write /sys/fs/cgroup/" + file + " " + c.write + "\n"; !strings.Contains(got, want) {
					t.Errorf("there is no line %q", want)
				}
			}
			if t.Failed() {
				t.Log(got)
			}
		})
	}
}

func TestAContainerThatTakesTooMuchMemory(t *testing.T) {
	h := newLimited(t)
	container, _ := h.run(limits(32), "eat=256")
	st := h.exited(container)
	if st.ExitCode != 137 || st.Reason != "OOMKilled" {
		t.Errorf("it ended with %d, %s", st.ExitCode, st.Reason)
	}
	container, _ = h.run(limits(32), "eat=8", "exit=3")
	if st = h.exited(container); st.ExitCode != 3 || st.Reason != "Error" {
		t.Errorf("one within its limit ended with %d, %s", st.ExitCode, st.Reason)
	}
	container, _ = h.run(limits(32), "wait")
	_, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container})
	h.must(err)
	if st = h.exited(container); st.ExitCode != 137 || st.Reason != "Error" {
		t.Errorf("one that was killed otherwise ended with %d, %s", st.ExitCode, st.Reason)
	}
}

// TestTooMuchMemoryWhileNoServerRuns checks that the next server reports why the container ended.
func TestTooMuchMemoryWhileNoServerRuns(t *testing.T) {
	h := newLimited(t)
	container, pod := h.run(limits(32), "term", "exit=1")
	h.logged(container, "stdout F waiting")
	exec := make(chan error, 1)
	go func() {
		_, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: container, Cmd: []string{"/bin/program", "eat=256"},
		})
		exec <- err
	}()
	<-exec // the kernel kills the process with the most memory
	if !strings.Contains(h.group("memory.oom_control", pod, container), "oom_kill 1") {
		t.Errorf("the kernel killed nothing: %s", h.group("memory.oom_control", pod, container))
	}
	report, _, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	h.must(err)
	h.kill()
	h.must(unix.Kill(report.PID, unix.SIGTERM))
	h.waitFor("its end", func() bool {
		_, ended, _ := run.ReadExit(filepath.Join(h.dir, "state", "containers", container))
		return ended
	})
	h.start()
	if st := h.exited(container); st.ExitCode != 7 || st.Reason != "OOMKilled" {
		t.Errorf("it ended with %d, %s", st.ExitCode, st.Reason)
	}
}
