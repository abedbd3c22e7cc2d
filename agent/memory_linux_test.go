//go:build !race

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// memoryLimit is what the agent may need, in KiB.
const memoryLimit = 30 << 10

// TestTheAgentNeeds30MiB of memory at most, measured where it works most: two machines come and go, with a look at the
// whole host before and after each, hundreds of commands, and thousands of changes of the host in between. Not with the race detector, which takes several
// times as much: make test runs it without.
func TestTheAgentNeeds30MiB(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newOwnedHost(t)
		shell(t, "mkdir /opt/files; cd /opt/files; for d in $(seq 200); do mkdir $d; (cd $d; seq 100 | xargs touch); done")
		agent := h.start(t, "")
		for range 2 {
			id, digest := h.compareIt(t, "#cloud-config\nwrite_files:\n- {path: /etc/kubernetes/x, content: x}\n"+
				"runcmd:\n"+strings.Repeat("- echo one of many commands\n", 200))
			for n := range 2000 {
				h.api.Change(func() { h.api.Host.Labels = map[string]string{"n": strconv.Itoa(n)} })
			}
			h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
			h.api.Wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
				return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done &&
					len(r.Cleaning.Leftovers) == 0 && r.Cleaning.Baseline == digest
			})
			h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret = nil, nil })
		}
		if most := peak(t, agent); most > memoryLimit {
			t.Errorf("the agent has needed %d KiB, more than %d", most, memoryLimit)
		} else {
			t.Logf("the agent has needed %d KiB", most)
		}
		stop(t, agent)
	})
}

// peak returns the most memory that a process has had, in KiB.
func peak(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel does not say how much memory a process has had")
	return 0
}
