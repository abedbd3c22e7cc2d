package hosts

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// program is the path at which the enrolment line installs the agent.
const program = "/opt/capstan/bin/capstan-agent"

// TestUpgradeUnderSystemd: an agent of an earlier version replaces itself with the plane's version, and systemd sees
// one process that never stopped.
func TestUpgradeUnderSystemd(t *testing.T) {
	w := newWorld(t)
	h := w.enroll("rack1-01", 11)
	do := func(line string) string {
		t.Helper()
		out, err := h.does(line)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	version := func() string { return w.field("capstanhost", "rack1-01", ".status.agent.version") }
	if got := version(); got != planeVersion {
		t.Fatalf("the enrolment line installs version %s of the agent", got)
	}
	// With agentUpgrade Manual, the host keeps the earlier agent.
	w.run("", "kubectl", "patch", "capstanhost", "rack1-01", "--type=merge", "-p", `{"spec":{"agentUpgrade":"Manual"}}`)
	if err := h.place(filepath.Join(w.bin, "capstan-agent-earlier"), program); err != nil {
		t.Fatal(err)
	}
	do("systemctl restart capstan-agent")
	wait(t, "the earlier agent reports", func() bool { return version() == earlierVersion })
	const mainProcess = "systemctl show capstan-agent -p MainPID -p NRestarts --value | paste -sd ' '"
	before := do(mainProcess)
	w.run("", "kubectl", "patch", "capstanhost", "rack1-01", "--type=merge", "-p", `{"spec":{"agentUpgrade":"Automatic"}}`)
	wait(t, "the agent of the plane reports", func() bool { return version() == planeVersion })
	wait(t, "the process runs the plane's agent, and the earlier program is kept", func() bool {
		out, err := h.does(fmt.Sprintf("readlink /proc/%s/exe; %s --version; %[2]s.previous --version",
			strings.Fields(before)[0], program))
		return err == nil && out == program+"\ncapstan-agent "+planeVersion+"\ncapstan-agent "+earlierVersion+"\n"
	})
	if after := do(mainProcess); after != before {
		t.Errorf("main process and number of restarts: systemd says %s, before the upgrade %s", after, before)
	}
	if got := do("pgrep -c capstan-agent"); got != "1" {
		t.Errorf("%s agent processes run, want 1", got)
	}
	do("systemctl restart capstan-agent")
	w.ready(t, "rack1-01")
}
