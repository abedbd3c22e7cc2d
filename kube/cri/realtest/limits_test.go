//go:build linux

package realtest

import (
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
	container, pod := h.run(limits(64), "cat=/proc/self/cgroup", "wait")
	h.logged(container, "stdout F waiting")
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if want := "/pods/" + pod + "/" + container; !strings.Contains(h.log(container), ":"+controller+":") ||
			strings.Count(h.log(container), want) != 3 {
			t.Errorf("the program is not in the groups of its container: %s", h.log(container))
		}
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
		ContainerId: container, Cmd: []string{"/bin/program", "cat=/proc/self/cgroup"},
	})
	h.must(err)
	if strings.Count(string(resp.Stdout), "/pods/"+pod+"/"+container) != 3 {
		t.Errorf("a command is not in the groups of its container: %s", resp.Stdout)
	}
	_, err = h.UpdateContainerResources(h.ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: container, Linux: &runtimeapi.LinuxContainerResources{CpuQuota: -1, MemoryLimitInBytes: 128 << 20},
	})
	h.must(err)
	if got := h.group("memory.limit_in_bytes", pod, container); got != "134217728" {
		t.Errorf("after a change the limit is %s", got)
	}
	status, err := h.Status(h.ctx, &runtimeapi.StatusRequest{Verbose: true})
	h.must(err)
	if got := status.Info["capstan.limits"]; got != `"cpu.memory.pids"` {
		t.Errorf("the status says that limits are %s", got)
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
