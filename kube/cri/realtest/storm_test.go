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

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/run"
)

// TestAForkBombIsBounded: a pod that makes as many processes as it can reaches the limit of its pod, others still
// start, and nothing is left of it.
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
	h.waitFor("the end of its processes", func() bool {
		_, err := os.Stat(filepath.Join(h.groups, "pids", "pods", pod, container))
		return os.IsNotExist(err)
	})
}

// TestAStormOfCommands runs many commands in a container at a time. Some have clients that vanish, others a time
// limit. The server gives each its own answer, keeps no file of them, and they leave no process.
func TestAStormOfCommands(t *testing.T) {
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
	before := h.files()
	const commands, rounds = 6, 2
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			for j := range rounds {
				word := fmt.Sprintf("%d of %d", j, i)
				if out, err := command(h.ctx, 0, "say="+word); err != nil || out != word+"\n" {
					t.Errorf("command %s answers %q, %v", word, out, err)
				}
				gone, cancel := context.WithCancel(h.ctx)
				go cancel()
				command(gone, 2, "wait")
				if _, err := command(h.ctx, 1, "wait"); err == nil {
					t.Error("a command ran longer than its time limit")
				}
			}
		})
	}
	all.Wait()
	h.waitFor("the end of all commands", func() bool {
		return h.processes(container) == 1
	})
	h.waitFor("the server to close its files", func() bool { return h.files() <= before })
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
