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

// limits returns a function that sets a container's limits. memory is the memory limit in MiB.
func limits(memory int64) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{
			CpuShares: 512, CpuQuota: 50000, CpuPeriod: 100000, MemoryLimitInBytes: memory << 20, OomScoreAdj: 500,
		}
	}
}

// setting is a limit of a container or pod in one version of control groups: a file and its content.
type setting struct{ file, value string }

// unified reports whether the host has control groups of version 2.
func (h *host) unified() bool {
	_, err := os.Stat(filepath.Join(h.groups, hosttest.Unified))
	return err == nil
}

// either returns the setting first if the host has control groups of version 1, and the setting second if it has
// version 2.
func (h *host) either(first, second setting) setting {
	if h.unified() {
		return second
	}
	return first
}

// memory returns a memory limit, and weight returns a processor weight.
func (h *host) memory(bytes string) setting {
	return h.either(setting{"memory.limit_in_bytes", bytes}, setting{"memory.max", bytes})
}

func (h *host) weight(shares, weight string) setting {
	return h.either(setting{"cpu.shares", shares}, setting{"cpu.weight", weight})
}

func (h *host) quota() setting {
	return h.either(setting{"cpu.cfs_quota_us", "50000"}, setting{"cpu.max", "50000 100000"})
}

// seen returns the path at which programs find a file of their control group.
func (h *host) seen(file string) string {
	controller, _, _ := strings.Cut(file, ".")
	if h.unified() {
		return "/sys/fs/cgroup/" + file
	}
	return "/sys/fs/cgroup/" + controller + "/" + file
}

// group reads a file of a container's control groups.
func (h *host) group(file, pod, container string) string {
	h.t.Helper()
	controller, _, _ := strings.Cut(file, ".")
	if h.unified() {
		controller = hosttest.Unified
	}
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
	controllers, mine, other := 3, ":memory:/\n", "/sys/fs/cgroup/pids/new"
	if h.unified() {
		controllers, mine, other = 1, "0::/\n", "/sys/fs/cgroup/new"
	}
	if in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", report.PID)); err != nil ||
		strings.Count(string(in), "/pods/"+pod+"/"+container) != controllers {
		t.Errorf("the program is not in the control groups of its container: %s, %v", in, err)
	}
	for _, want := range []setting{h.weight("512", "20"), h.quota(), h.memory("67108864")} {
		if got := h.group(want.file, pod, container); got != want.value {
			t.Errorf("%s is %s, want %s", want.file, got, want.value)
		}
	}
	if got := h.group("pids.max", pod, ""); got != "4096" {
		t.Errorf("the pod may have %s processes, want 4096", got)
	}
	resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "cat=/proc/self/cgroup", "write=" + other},
	})
	h.must(err)
	if got := string(resp.Stdout); !strings.Contains(got, mine) || !strings.HasSuffix(got, "EROFS\n") {
		t.Errorf("a command is not in the control groups of its container: %s", got)
	}
	_, err = h.UpdateContainerResources(h.ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: container, Linux: &runtimeapi.LinuxContainerResources{CpuQuota: -1, MemoryLimitInBytes: 128 << 20},
	})
	h.must(err)
	changed := h.memory("134217728")
	if got := h.group(changed.file, pod, container); got != changed.value {
		t.Errorf("after a change the limit is %s", got)
	}
	resp, err = h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "cat=" + h.seen(changed.file)},
	})
	h.must(err)
	if string(resp.Stdout) != changed.value+"\n" {
		t.Errorf("after a change the container sees the limit %s", resp.Stdout)
	}
	_, err = h.UpdatePodSandboxResources(h.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: pod, Resources: &runtimeapi.LinuxContainerResources{CpuShares: 700, MemoryLimitInBytes: 1 << 20},
	})
	h.must(err)
	changed = h.weight("700", "27")
	if got := h.group(changed.file, pod, ""); got != changed.value {
		t.Errorf("after a change the pod's weight is %s", got)
	}
	status, err := h.Status(h.ctx, &runtimeapi.StatusRequest{Verbose: true})
	h.must(err)
	if got := status.Info["capstan.limits"]; got != `"cpu.memory.pids"` {
		t.Errorf("the status reports the limits %s", got)
	}
}

// TestLimitsSeenFromInside checks that a program finds its limits where it looks for them, and sees no other groups.
// Only a privileged program may try to write them.
func TestLimitsSeenFromInside(t *testing.T) {
	for name, c := range map[string]struct {
		privileged   bool
		group, write string
	}{
		"unprivileged": {false, "/", "EROFS"},
		"privileged":   {true, "", "EINVAL"}, // the kernel refuses what the program writes
	} {
		t.Run(name, func(t *testing.T) {
			h := newLimited(t)
			want := []setting{h.weight("512", "20"), h.quota(), h.memory("67108864")}
			written := []string{h.seen(want[2].file), h.seen("pids.max")}
			look := []string{"cat=/proc/self/cgroup"}
			for _, s := range want {
				look = append(look, "cat="+h.seen(s.file))
			}
			for _, path := range append([]string{"/sys/fs/cgroup/new"}, written...) {
				look = append(look, "write="+path)
			}
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
			for _, s := range want {
				if !strings.Contains(got, "F "+s.value+"\n") {
					t.Errorf("the program does not see %s in %s", s.value, s.file)
				}
			}
			controllers := []string{":cpu:", ":memory:", ":pids:"}
			if h.unified() {
				controllers = []string{" 0::"}
			}
			for _, controller := range controllers {
				_, group, _ := strings.Cut(got, controller)
				if group, _, _ = strings.Cut(group, "\n"); !strings.HasSuffix(group, c.group) ||
					!c.privileged && group != "/" {
					t.Errorf("the program's group of %s is %q, want %s", controller, group, c.group)
				}
			}
			for _, path := range written {
				if want := "write " + path + " " + c.write + "\n"; !strings.Contains(got, want) {
					t.Errorf("the log has no line %q", want)
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
		t.Errorf("the container ended with %d, %s; want 137, OOMKilled", st.ExitCode, st.Reason)
	}
	container, _ = h.run(limits(32), "eat=8", "exit=3")
	if st = h.exited(container); st.ExitCode != 3 || st.Reason != "Error" {
		t.Errorf("a container within its limit ended with %d, %s; want 3, Error", st.ExitCode, st.Reason)
	}
	container, _ = h.run(limits(32), "wait")
	_, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container})
	h.must(err)
	if st = h.exited(container); st.ExitCode != 137 || st.Reason != "Error" {
		t.Errorf("a stopped container ended with %d, %s; want 137, Error", st.ExitCode, st.Reason)
	}
}

// TestTooMuchMemoryWhileNoServerRuns lets a container exceed its memory limit while no server runs, and checks that the
// next server reports this reason.
func TestTooMuchMemoryWhileNoServerRuns(t *testing.T) {
	h := newLimited(t)
	container, pod := h.run(limits(32), "term", "exit=1")
	h.logged(container, "stdout F waiting")
	exitCode := h.starve(pod, container)
	h.waitFor("the container to end", func() bool {
		_, ended, _ := run.ReadExit(filepath.Join(h.dir, "state", "containers", container))
		return ended
	})
	h.start()
	if st := h.exited(container); st.ExitCode != exitCode || st.Reason != "OOMKilled" {
		t.Errorf("the container ended with %d, %s; want %d, OOMKilled", st.ExitCode, st.Reason, exitCode)
	}
}

// starve kills the server, and makes the kernel kill a process of a container for using too much memory. It returns the
// exit code that the container must have.
func (h *host) starve(pod, container string) int32 {
	h.t.Helper()
	if h.unified() { // In version 2, the kernel kills all processes of the container at once.
		h.kill()
		h.must(os.WriteFile(filepath.Join(h.groups, hosttest.Unified, "pods", pod, container, "memory.max"), []byte("4096"),
			0o644))
		return 137
	}
	exec := make(chan error, 1)
	go func() {
		_, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: container, Cmd: []string{"/bin/program", "eat=256"},
		})
		exec <- err
	}()
	<-exec // the kernel kills the process with the most memory
	if !strings.Contains(h.group("memory.oom_control", pod, container), "oom_kill 1") {
		h.t.Errorf("the kernel did not kill exactly one process: %s", h.group("memory.oom_control", pod, container))
	}
	report, _, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	h.must(err)
	h.kill()
	h.must(unix.Kill(report.PID, unix.SIGTERM))
	return 7
}
