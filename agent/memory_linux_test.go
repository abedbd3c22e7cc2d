//go:build !race

package agent

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// memoryLimit is the maximum memory of the agent, in KiB.
const memoryLimit = 30 << 10

// realAgent is the path of the released agent in the test's host.
const realAgent = "/opt/capstan/bin/capstan-agent"

// buildAgent builds the agent and returns what the host shares with this machine: the agent, and the package database,
// which the baseline reads.
func buildAgent(t *testing.T) map[string]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "capstan-agent")
	build := exec.Command("go", "build", "-o", binary, "../cmd/capstan-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
	shared := map[string]string{binary: realAgent}
	if _, err := os.Stat("/var/lib/dpkg/info"); err == nil {
		shared["/var/lib/dpkg"] = "/var/lib/dpkg"
	}
	return shared
}

// TestTheAgentNeeds30MiB measures the released program where it works hardest: two machines come and go, with a look at
// the whole host before and after each, hundreds of commands, and thousands of changes of the host in between. make
// test runs it without the race detector, which would slow down the test's own side.
func TestTheAgentNeeds30MiB(t *testing.T) {
	testhost.RunWith(t, buildAgent, func(t *testing.T) {
		h := newOwnedHost(t)
		shell(t, "mkdir /opt/files; cd /opt/files; "+
			"for d in $(seq "+directories()+"); do mkdir $d; (cd $d; seq 100 | xargs touch); done")
		agent := h.startProgram(t, realAgent, "", &logWriter{t: t}, "--metrics-bind-address", metricsAddress)
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
		if text := scrape(t); !strings.Contains(text, "\ncapstan_agent_claims_total 2\n") {
			t.Errorf("the agent's metrics: %s", text)
		}
		most := memory(t, agent, "VmHWM")
		t.Logf("the agent has needed %d KiB; now %d of its own, %d of files", most,
			memory(t, agent, "RssAnon"), memory(t, agent, "RssFile"))
		if most > memoryLimit {
			t.Errorf("the agent has needed %d KiB, more than %d", most, memoryLimit)
		}
		stop(t, agent)
	})
}

// directories returns how many directories of a hundred files each the host has: CAPSTAN_TEST_DIRECTORIES, or 200.
func directories() string { return cmp.Or(os.Getenv("CAPSTAN_TEST_DIRECTORIES"), "200") }

// memory returns the kernel's value for a process's memory, in KiB; VmHWM is its peak.
func memory(t *testing.T, cmd *exec.Cmd, what string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, what+":"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the kernel does not say %s of a process", what)
	return 0
}
