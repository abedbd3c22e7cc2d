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
	"time"

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

// lookLimit is the maximum processor time of examining a host with a million files. A host with one idle processor and
// its directories in memory needs at most this long.
const lookLimit = 5 * time.Second

// TestTheAgentNeeds30MiB measures the released program where it works hardest. Two machines come and go. The agent
// examines the whole host before and after each. In between it runs hundreds of commands and sees thousands of changes
// of the host's object. make test runs it without the race detector, which would slow down the test's own side; make
// test-million-files runs it with a million files.
func TestTheAgentNeeds30MiB(t *testing.T) {
	testhost.RunWith(t, buildAgent, func(t *testing.T) {
		h := newOwnedHost(t)
		files := plantFiles(t, "/opt/files")
		plantLongPaths(t, "/opt/long")
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
		look := processorTime(t, agent) / 4
		t.Logf("each of four looks at a host with %d files and those of /usr took up to %s of processor time", files, look)
		if files >= 1_000_000 && look > lookLimit {
			t.Errorf("examining the host once took %s of processor time, more than %s", look, lookLimit)
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

// plantFiles creates directories of a hundred files each, and returns the number of files: CAPSTAN_TEST_FILES, or
// 20,000.
func plantFiles(t *testing.T, root string) int {
	t.Helper()
	files, err := strconv.Atoi(cmp.Or(os.Getenv("CAPSTAN_TEST_FILES"), "20000"))
	if err != nil {
		t.Fatal(err)
	}
	for d := range files / 100 {
		plantDirectory(t, filepath.Join(root, strconv.Itoa(d/100), strconv.Itoa(d%100)), 100)
	}
	return files
}

// plantLongPaths creates 9,000 files whose paths have nearly the greatest length that the kernel accepts.
func plantLongPaths(t *testing.T, root string) {
	t.Helper()
	for range 15 {
		root = filepath.Join(root, strings.Repeat("d", 255))
	}
	for d := range 10 {
		plantDirectory(t, filepath.Join(root, strconv.Itoa(d)), 900)
	}
}

func plantDirectory(t *testing.T, dir string, files int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for n := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// processorTime returns the processor time that a process has used, user and system.
func processorTime(t *testing.T, cmd *exec.Cmd) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ") // the parenthesis ends the program's name; the state is the third field
	fields := strings.Fields(after)
	const user, kernel, ticks = 14 - 3, 15 - 3, 100
	var sum time.Duration
	for _, n := range []int{user, kernel} {
		ticksOf, err := strconv.Atoi(fields[n])
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ticksOf) * time.Second / ticks
	}
	return sum
}

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
