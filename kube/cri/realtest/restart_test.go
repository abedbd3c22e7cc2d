//go:build linux

package realtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/run"
)

// running returns the report of a running container.
func (h *host) running(container string) run.Report {
	h.t.Helper()
	report, ok, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	if err != nil || !ok {
		h.t.Fatalf("there is no report that container %s runs: %v", container, err)
	}
	return report
}

// supervisor returns the parent of a container's program.
func (h *host) supervisor(container string) int {
	h.t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(h.running(container).PID) + "/status")
	h.must(err)
	_, parent, _ := strings.Cut(string(data), "PPid:")
	parent, _, _ = strings.Cut(strings.TrimSpace(parent), "\n")
	pid, err := strconv.Atoi(parent)
	h.must(err)
	return pid
}

// gone waits until a process has ended.
func (h *host) gone(pid int) {
	h.t.Helper()
	h.waitFor("process "+strconv.Itoa(pid)+" to end", func() bool {
		unix.Wait4(pid, nil, unix.WNOHANG, nil) // reap the process: it may have become a child of this one
		_, err := os.Stat("/proc/" + strconv.Itoa(pid))
		return err != nil
	})
}

func TestContainersOutliveAKilledServer(t *testing.T) {
	h := newHost(t)
	pod, config := h.pod(func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
	})
	stays := h.create(pod, config, nil, "term")
	typed := h.create(pod, config, func(c *runtimeapi.ContainerConfig) { c.Tty, c.Stdin = true, true }, "echo")
	ends := h.create(pod, config, func(c *runtimeapi.ContainerConfig) { c.Stdin = true }, "echo", "exit=42")
	orphaned := h.create(pod, config, nil, "wait")
	for _, container := range []string{stays, typed, ends, orphaned} {
		h.startContainer(container)
	}
	h.logged(stays, "stdout F waiting")
	h.logged(orphaned, "stdout F waiting")
	before := h.running(stays)
	endsRunner, lostRunner := h.supervisor(ends), h.supervisor(orphaned)
	lost := h.running(orphaned).PID
	h.kill()

	// Without a server, one container ends by itself, and another loses its supervisor.
	h.must(unix.Kill(endsRunner, unix.SIGUSR1)) // closes the standard input of the container
	h.gone(endsRunner)
	h.must(unix.Kill(lostRunner, unix.SIGKILL))
	h.gone(lostRunner)
	h.start()

	if st := h.status(stays); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		st.User.GetLinux().GetUid() != 101 {
		t.Errorf("the status of the container that must keep running is %v", st)
	}
	if now := h.running(stays); now.PID != before.PID || now.Started != before.Started {
		t.Errorf("the process of the container that must keep running is %+v, was %+v", now, before)
	}
	if st := h.exited(ends); st.ExitCode != 42 || st.Reason != "Error" {
		t.Errorf("the container that ended is %v", st)
	}
	if st := h.exited(orphaned); st.ExitCode != 255 || st.Reason != "Unknown" {
		t.Errorf("the container without a supervisor is %v", st)
	}
	h.gone(lost)
	if f := h.sees(stays); f.UID != 101 {
		t.Errorf("exec after the restart: %+v", f)
	}
	if _, err := h.StartContainer(h.ctx, &runtimeapi.StartContainerRequest{ContainerId: stays}); err == nil {
		t.Error("a running container was started again")
	}
	again := h.create(pod, config, nil, "say=again")
	h.startContainer(again)
	h.logged(again, "stdout F again")
	if _, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: stays, Timeout: 20}); err != nil {
		t.Fatal(err)
	}
	if st := h.status(stays); st.ExitCode != 7 {
		t.Errorf("the stopped container is %v", st)
	}
	h.logged(stays, "stdout F ending")
	if st := h.status(typed); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container with a terminal is %v", st)
	}
}

func TestAKilledSupervisor(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	h.logged(container, "stdout F waiting")
	pid := h.running(container).PID
	h.must(unix.Kill(h.supervisor(container), unix.SIGKILL))
	if st := h.exited(container); st.ExitCode != 137 {
		t.Errorf("the container is %v, want exit code 137", st)
	}
	h.gone(pid)
}

func TestAPodWhosePIDNamespaceIsKilled(t *testing.T) {
	h := newHost(t)
	pod, config := h.pod(func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
	})
	container := h.create(pod, config, nil, "wait")
	h.startContainer(container)
	h.logged(container, "stdout F waiting")
	first, ok, err := run.ReadRunning(filepath.Join(h.dir, "state", "pods", pod, "pause"))
	if err != nil || !ok {
		t.Fatalf("the pod's first process is not recorded: %v", err)
	}
	h.must(unix.Kill(first.PID, unix.SIGKILL))
	if st := h.exited(container); st.ExitCode != 137 {
		t.Errorf("the pod's container is %v", st)
	}
	h.waitFor("the pod to be stopped", func() bool {
		resp, err := h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod})
		return err == nil && resp.Status.State == runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	})
}

// TestAStartThatWasNotRecordedIsFound checks that the next server finds a container if a server was killed between
// starting the container and recording the start.
func TestAStartThatWasNotRecordedIsFound(t *testing.T) {
	h := newHost(t)
	pod, config := h.pod(nil)
	container := h.create(pod, config, nil, "term")
	record := filepath.Join(h.dir, "state", "containers", container, "record.json")
	created, err := os.ReadFile(record)
	h.must(err)
	h.startContainer(container)
	h.logged(container, "stdout F waiting")
	h.kill()
	h.must(os.WriteFile(record, created, 0o600))
	h.start()
	if st := h.status(container); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING || st.StartedAt == 0 {
		t.Errorf("the container is %v, want it running", st)
	}
}

// TestAfterAReboot checks that no earlier container runs after a reboot of the host, and that everything can be
// removed.
func TestAfterAReboot(t *testing.T) {
	h := newHost(t)
	container, pod := h.run(nil, "wait")
	h.logged(container, "stdout F waiting")
	pid := h.running(container).PID
	h.kill()
	h.must(unix.Kill(pid, unix.SIGKILL))
	h.gone(pid)
	h.must(os.WriteFile(filepath.Join(h.dir, "state", "boot"), []byte("another boot"), 0o600))
	h.start()
	resp, err := h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod})
	if err != nil || resp.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the pod is %v, %v; want it not ready", resp, err)
	}
	if st := h.exited(container); st.ExitCode != 137 {
		t.Errorf("the container is %v", st)
	}
}
