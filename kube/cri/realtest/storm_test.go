//go:build linux

package realtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/run"
)

// oneLevel skips a storm on hosts with 65,536 ids unless long tests are enabled. The number of ids makes no difference
// to how the server treats many commands.
func oneLevel(t *testing.T) {
	t.Helper()
	if !hosttest.OneID() && os.Getenv("CAPSTAN_TEST_LONG") == "" {
		t.Skip("make test-long runs this test")
	}
}

// TestAForkBombIsBounded checks that a container that creates as many processes as it can reaches the limit of its pod.
// Other pods still start, and once the container is stopped, none of its processes is left.
func TestAForkBombIsBounded(t *testing.T) {
	h := newLimited(t)
	container, pod := h.run(nil, "bomb=5000", "wait")
	h.logged(container, "stdout F bomb true EAGAIN")
	if got := h.group("pids.current", pod, ""); got != "4096" {
		t.Errorf("the pod has %s processes", got)
	}
	other, _ := h.run(nil, "say=beside")
	if st := h.exited(other); st.ExitCode != 0 {
		t.Errorf("another pod's program ended with %d: %s", st.ExitCode, h.log(other))
	}
	_, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container})
	h.must(err)
	h.waitFor("the container's processes to end", func() bool {
		_, err := os.Stat(filepath.Join(h.groups, "pids", "pods", pod, container))
		return os.IsNotExist(err)
	})
}

// TestAStormOfCommands runs many commands in a container at the same time. Some have clients that vanish, others have a
// time limit. The server answers each correctly and keeps none of their files open, and the commands leave no process.
func TestAStormOfCommands(t *testing.T) {
	oneLevel(t)
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	h.logged(container, "stdout F waiting")
	command := func(ctx context.Context, limit int64, args ...string) (string, error) {
		resp, err := h.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: container, Cmd: append([]string{"/bin/program"}, args...), Timeout: limit,
		})
		return string(resp.GetStdout()), err
	}
	_, err := command(h.ctx, 0, "say=first")
	h.must(err)
	other, _ := h.run(nil, "wait")
	before := h.files()
	var all sync.WaitGroup
	all.Go(func() {
		// A process that this command leaves behind holds the output for longer than the time limit of the command.
		resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: other, Cmd: []string{"/bin/program", "say=done", "leave"}, Timeout: 9,
		})
		if err != nil || resp.ExitCode != 0 || !strings.HasPrefix(string(resp.Stdout), "done\n") {
			t.Errorf("a command that leaves a process behind printed %q, %v", resp.GetStdout(), err)
		}
	})
	for i := range stormy {
		all.Go(func() {
			word := strconv.Itoa(i)
			if out, err := command(h.ctx, 0, "say="+word); err != nil || out != word+"\n" {
				t.Errorf("command %s printed %q, %v", word, out, err)
			}
			gone, cancel := context.WithCancel(h.ctx)
			go cancel()
			command(gone, 2, "wait")
			if _, err := command(h.ctx, 1, "wait"); err == nil {
				t.Error("a command ran longer than its time limit")
			}
		})
	}
	all.Wait()
	_, err = h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: other})
	h.must(err)
	h.waitFor("all commands to end", func() bool {
		return h.processes(container) == 1
	})
	h.waitFor("the server to close its files", func() bool { return h.files() <= before })
	h.bounded()
}

// TestAStormOfStreams keeps many commands open in a container, each with endless output that its client does not read.
// Meanwhile another pod starts, and other commands are answered. After the clients vanish, nothing is left.
func TestAStormOfStreams(t *testing.T) {
	oneLevel(t)
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	h.logged(container, "stdout F waiting")
	_, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"/bin/program"}})
	h.must(err)
	before := h.files()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	var all sync.WaitGroup
	for range stormy {
		resp, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{
			ContainerId: container, Cmd: []string{"/bin/program", "flood"}, Stdout: true,
		})
		h.must(err)
		all.Go(func() {
			h.stream(ctx, resp.Url, remotecommand.StreamOptions{Stdout: deaf{ctx}}) // until the client vanishes
		})
	}
	h.waitFor("all commands to run", func() bool { return h.processes(container) >= 1+stormy })
	other, _ := h.run(nil, "say=beside")
	if st := h.exited(other); st.ExitCode != 0 {
		t.Errorf("another pod's program ended with %d: %s", st.ExitCode, h.log(other))
	}
	resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "say=beside"}, Timeout: int64(limit.Seconds()),
	})
	if err != nil || string(resp.Stdout) != "beside\n" {
		t.Errorf("another command printed %q, %v", resp.GetStdout(), err)
	}
	h.bounded()
	cancel()
	all.Wait()
	h.waitFor("all commands to end", func() bool { return h.processes(container) == 1 })
	h.waitFor("the server to close its files", func() bool { return h.files() <= before })
}

const (
	stormy      = 200 // commands at a time
	stormMemory = 256 // maximum peak memory of the server, in MiB
)

// deaf is a client that reads nothing until it vanishes.
type deaf struct{ ctx context.Context }

func (d deaf) Write([]byte) (int, error) {
	<-d.ctx.Done()
	return 0, d.ctx.Err()
}

// bounded checks the peak memory of the server.
func (h *host) bounded() {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.server.Process.Pid), "status"))
	h.must(err)
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	h.must(err)
	h.t.Logf("the server took %d MiB at most", kib>>10)
	if kib>>10 > stormMemory {
		h.t.Errorf("the server took %d MiB, want at most %d", kib>>10, stormMemory)
	}
}

// processes returns the number of processes in a container's PID namespace, except zombies.
func (h *host) processes(container string) (count int) {
	h.t.Helper()
	report, _, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	h.must(err)
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", report.PID))
	h.must(err)
	entries, err := filepath.Glob("/proc/[0-9]*")
	h.must(err)
	for _, entry := range entries {
		other, err := os.Readlink(filepath.Join(entry, "ns/pid"))
		if err != nil || other != namespace {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(entry, "stat")) // The state comes after the name in parentheses.
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			count++
		}
	}
	return count
}

// files returns the number of files that the server has open.
func (h *host) files() int {
	h.t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(h.server.Process.Pid), "fd"))
	h.must(err)
	return len(entries)
}
