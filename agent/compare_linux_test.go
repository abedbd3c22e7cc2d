package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// leavingData is bootstrap data of a machine that runs as root and leaves things that no Kubernetes node would. It
// waits until its last process runs tail without the machine's environment: before that, cleaning would find and stop
// the process.
const leavingData = `#cloud-config
runcmd:
- echo begun > /var/log/begun
- echo 'toor:x:0:0::/root:/bin/sh' >> /etc/passwd
- mkdir -p /root/.ssh /etc/systemd/system/multi-user.target.wants /mnt/left
- echo 'ssh-ed25519 AAAA me' > /root/.ssh/authorized_keys
- cp /usr/bin/id /var/lib/id && chmod 4755 /var/lib/id
- echo /tmp/x.so > /etc/ld.so.preload; rm -f /etc/ld.so.preload.off
- ln -s /run/evil.service /etc/systemd/system/multi-user.target.wants/evil.service
- mount -t tmpfs left /mnt/left
- ip address add 192.0.2.9/32 dev eth0
- >-
  env -i setsid tail -f /dev/null > /dev/null 2>&1 &
  timeout 10 sh -c "until grep -q tail /proc/$!/comm; do sleep 0.01; done"
`

// cleanUp removes everything that leavingData leaves, except the process.
const cleanUp = `
sed -i /toor/d /etc/passwd
sed -i /administrator/d /etc/hosts
rm -rf /root/.ssh /var/lib/id /etc/ld.so.preload /etc/systemd
umount /mnt/left
ip address del 192.0.2.9/32 dev eth0
`

// newOwnedHost returns a host that, as far as the agent knows, is not a namespace of a machine.
func newOwnedHost(t *testing.T) *host {
	t.Helper()
	h := newTestHost(t)
	text := strings.Replace(content(h.config), "local: true", "local: false", 1)
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil || strings.Contains(text, "local: true") {
		t.Fatalf("%v\n%s", err, text)
	}
	return h
}

// compareIt claims the host with the proof Compare, and stores the baseline's digest in the claim, as the controller
// does.
func (h *host) compareIt(t *testing.T, data string) (id, digest string) {
	t.Helper()
	h.claims++
	h.api.ClaimWith(func(c *v1beta2.HostClaim) { c.Proof = v1beta2.ProofCompare }, fmt.Sprintf("c%07x", h.claims), data)
	id = h.api.Host.Spec.Claim.ProviderID
	h.api.Wait(t, "the baseline", func(r *v1beta2.AgentReport) bool {
		return r.Bootstrap != nil && r.Bootstrap.ProviderID == id && r.Bootstrap.Baseline != ""
	})
	if _, err := os.Stat("/var/log/begun"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the bootstrap began before the management cluster had the baseline's digest")
	}
	h.api.Change(func() {
		digest = h.api.Host.Status.Agent.Bootstrap.Baseline
		h.api.Host.Spec.Claim.Baseline = digest
	})
	h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
	return id, digest
}

// left waits until the agent reports enough leftovers, and returns them.
func (h *host) left(t *testing.T, id string, enough func([]string) bool) []string {
	t.Helper()
	var left []string
	h.api.Wait(t, "enough leftovers in the report", func(r *v1beta2.AgentReport) bool {
		if r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done {
			left = slices.Clone(r.Cleaning.Leftovers)
		}
		return len(left) > 0 && enough(left)
	})
	return left
}

// TestWhatAMachineLeaves: these leftovers escape the proof that looks for a Kubernetes node, but not the comparison.
func TestWhatAMachineLeaves(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newOwnedHost(t)
		agent := h.start(t, "")
		id, digest := h.compareIt(t, leavingData)
		if hosts := content("/etc/hosts"); !strings.Contains(hosts, " # the Node on this host\n") {
			t.Errorf("/etc/hosts lacks the Node's name:\n%s", hosts)
		}
		shell(t, "echo 192.0.2.77 administrator >> /etc/hosts") // cleaning must keep this line
		// A program that the machine left removes the agent's notes.
		shell(t, `sed -i '/"note"/d' /var/lib/capstan/journal/*/steps.jsonl`)
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		left := strings.Join(h.left(t, id, func([]string) bool { return true }), "\n")
		for _, want := range []string{
			"process /usr/bin/tail of uid 0", "mount /mnt/left (tmpfs of left)", "address 192.0.2.9/32 on eth0",
			"path /var/lib/id, a program with rights of its own", "path /etc/ld.so.preload", "path /etc/passwd",
			"path /etc/systemd",
			"path /root/.ssh", "path /etc/hosts",
		} {
			if !strings.Contains(left, want) {
				t.Errorf("%s is not reported:\n%s", want, left)
			}
		}

		if hosts := content("/etc/hosts"); strings.Contains(hosts, "the Node on this host") ||
			!strings.Contains(hosts, "192.0.2.77 administrator\n") {
			t.Errorf("after cleaning, /etc/hosts is\n%s", hosts)
		}

		// Somebody removes the leftovers, and the agent finds out by itself that the host is clean.
		shell(t, cleanUp)
		for _, p := range running(t, "tail") {
			end(t, p.PID)
		}
		h.api.Wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.Done && len(r.Cleaning.Leftovers) == 0 &&
				r.Cleaning.Baseline == digest
		})
		h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret = nil, nil })
		forget(t, "/var/log/begun")

		// The next machine leaves nothing.
		id, digest = h.compareIt(t, "#cloud-config\nruncmd:\n- echo begun > /var/log/begun\n")
		h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
		h.api.Wait(t, "a clean host again", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done &&
				len(r.Cleaning.Leftovers) == 0 && r.Cleaning.Baseline == digest
		})
		stop(t, agent)
	})
}

// TestABaselineThatIsExchanged: a machine that runs as root writes its own baseline.
func TestABaselineThatIsExchanged(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newOwnedHost(t)
		for name, c := range map[string]struct{ command, want string }{
			"exchanged": {"echo other > $(echo /var/lib/capstan/journal/*/baseline.gz)",
				"the baseline of the host was replaced"},
			"deleted": {"rm /var/lib/capstan/journal/*/baseline.gz", "the baseline of the host is missing"},
		} {
			agent := h.start(t, "")
			id, _ := h.compareIt(t, "#cloud-config\nruncmd:\n- "+c.command+"\n")
			h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
			left := h.left(
				t,
				id,
				func(left []string) bool { return strings.Contains(strings.Join(left, "\n"), c.want) },
			)
			if len(left) != 1 {
				t.Errorf("%s: %q", name, left)
			}
			h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret = nil, nil })
			stop(t, agent)
			shell(t, "rm -rf /var/lib/capstan/journal/*") // somebody has reinstalled the host
		}
	})
}

// TestABaselineThatIsKilledInTheMiddle: the next agent continues with the same baseline.
func TestABaselineThatIsKilledInTheMiddle(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newOwnedHost(t)
		first := h.start(t, "baseline taken")
		h.claims++
		h.api.ClaimWith(
			func(c *v1beta2.HostClaim) { c.Proof = v1beta2.ProofCompare },
			"k",
			"#cloud-config\nruncmd: [\"true\"]\n",
		)
		killed(t, first)
		files, err := filepath.Glob("/var/lib/capstan/journal/*/baseline.gz")
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		before, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		second := h.start(t, "")
		id := h.api.Host.Spec.Claim.ProviderID
		h.api.Wait(
			t,
			"the baseline",
			func(r *v1beta2.AgentReport) bool { return r.Bootstrap != nil && r.Bootstrap.Baseline != "" },
		)
		h.api.Change(func() { h.api.Host.Spec.Claim.Baseline = h.api.Host.Status.Agent.Bootstrap.Baseline })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		if after, err := os.Stat(files[0]); err != nil || !os.SameFile(before, after) {
			t.Errorf("the baseline was taken again: %v", err)
		}
		stop(t, second)
	})
}

// shell runs a script.
func shell(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// end kills a process and waits until it is gone.
func end(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(running(t, "tail")) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process does not end")
		}
	}
}
