package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cluster is a Cluster whose machines only the test creates.
const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: cut, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: CapstanCluster, name: cut}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: CapstanCluster
metadata: {name: cut, namespace: default}
spec:
  controlPlaneEndpoint: {host: 192.0.2.99, port: 6443}
`

// owned is a machine for one host. Its bootstrap records which other machines run on the host, waits for a signal, and
// leaves a process that shows who owns the host.
const owned = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: NAME, namespace: default, labels: {cluster.x-k8s.io/cluster-name: cut}}
spec:
  clusterName: cut
  version: v1.36.3
  bootstrap: {dataSecretName: NAME}
  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: CapstanMachine, name: NAME}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: CapstanMachine
metadata: {name: NAME, namespace: default, labels: {cluster.x-k8s.io/cluster-name: cut}}
spec:
  hostSelector: {matchLabels: {host: HOST}}
---
apiVersion: v1
kind: Secret
metadata:
  name: NAME
  namespace: default
  labels: {infrastructure.capstan.dev/bootstrap-data: ""}
stringData:
  format: cloud-config
  value: |
    #cloud-config
    write_files:
    - path: /run/owner-NAME
      content: |
        while :; do sleep 1; done
    runcmd:
    - grep -al '/run/owner[-]' /proc/[0-9]*/cmdline >> /var/tmp/two-owners
    - touch /var/tmp/began-NAME
    - until [ -e /var/tmp/go ]; do sleep 0.1; done
    - setsid sh /run/owner-NAME > /dev/null 2>&1 < /dev/null &
`

// owners returns the machines whose processes run on a host.
func (h *host) owners() ([]string, error) {
	out, err := h.does(`grep -ahzo '/run/owner[-].*' /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | sort -u || true`)
	return strings.Fields(strings.ReplaceAll(out, "/run/owner-", "")), err
}

// directions are the ways in which a host is cut off from the plane. The values are the chains of nftables that drop
// packets.
var directions = map[string][]string{
	"deaf": {"output"},          // packets from the plane don't arrive
	"mute": {"input"},           // packets from the host don't arrive
	"both": {"input", "output"}, // neither arrives
}

// cut cuts a host off in one direction: this computer, on which the plane runs, drops packets. heal undoes that.
func cut(h *host, address, direction string) error {
	rules := "table inet cut-" + h.Name + " {\n"
	for _, chain := range directions[direction] {
		side := map[string]string{"input": "saddr", "output": "daddr"}[chain]
		rules += fmt.Sprintf("chain %s { type filter hook %[1]s priority 0; ip %s %s drop; }\n", chain, side, address)
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules + "}\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

func heal(h *host) error {
	out, err := exec.Command("nft", "delete", "table", "inet", "cut-"+h.Name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// TestPartitions cuts hosts off from the plane, one way and both ways, while they are claimed, while a bootstrap runs,
// and while they are released. Meanwhile the machine is deleted, a person gives the host up or nobody notices, and
// another machine wants the host. A host must never have two owners: not according to its claim and epoch, and not
// according to its processes.
func TestPartitions(t *testing.T) {
	w := newWorld(t)
	w.run(cluster, "kubectl", "apply", "-f", "-")
	hosts := map[string]*host{}
	last := 11
	for direction := range directions {
		for _, at := range []string{"claim", "bootstrap", "release"} {
			name := direction + "-" + at
			h := w.enroll(name, last)
			const own = "echo 'bundles: packages' >> /etc/capstan/agent.yaml; systemctl restart capstan-agent"
			if _, err := h.does(own); err != nil {
				t.Fatal(err)
			}
			hosts[name] = h
			last++
		}
	}
	t.Run("hosts", func(t *testing.T) {
		for name, h := range hosts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				direction, at, _ := strings.Cut(name, "-")
				p := &partition{t: t, w: w, h: h, direction: direction, at: at}
				p.run()
			})
		}
	})
}

// partition is one host that is cut off.
type partition struct {
	t             *testing.T
	w             *world
	h             *host
	direction, at string
}

func (p *partition) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// make creates a machine for the host.
func (p *partition) make(name string) {
	p.t.Helper()
	text := strings.NewReplacer("NAME", name, "HOST", p.h.Name).Replace(owned)
	_, err := p.w.try(text, "kubectl", "apply", "-f", "-")
	p.must(err)
}

// hasFile reports whether a file exists on the host.
func (p *partition) hasFile(path string) bool {
	_, err := os.Stat(filepath.Join(p.h.Root(), path))
	return err == nil
}

func (p *partition) claimant() string {
	return p.w.field("capstanhost", p.h.Name, ".spec.claim.machine")
}

func (p *partition) cut() {
	p.t.Helper()
	p.must(cut(p.h, p.address(), p.direction))
	p.t.Cleanup(func() { _ = heal(p.h) })
}

func (p *partition) address() string {
	return p.w.field("capstanhost", p.h.Name, ".status.agent.address")
}

func (p *partition) run() {
	t, first, second := p.t, p.h.Name+"-a", p.h.Name+"-b"
	p.w.ready(t, p.h.Name)
	if p.at == "claim" { // the claim is made right after the cut, while the host still counts as alive
		_, err := p.w.try("", "host", "cordon", p.h.Name)
		p.must(err)
		p.make(first)
		p.cut()
		_, err = p.w.try("", "host", "uncordon", p.h.Name)
		p.must(err)
	} else {
		p.make(first)
	}
	wait(t, first+" has the host", func() bool { return p.claimant() == first })
	if p.at != "claim" {
		wait(t, first+" begins", func() bool { return p.hasFile("/var/tmp/began-" + first) })
	}
	if p.at == "bootstrap" {
		p.cut()
	}
	_, err := p.h.does("touch /var/tmp/go")
	p.must(err)
	if p.at == "release" {
		wait(t, first+" is provisioned", func() bool {
			return p.w.field("capstanmachine", first, ".status.initialization.provisioned") == "true"
		})
		p.cut()
	}
	_, err = p.w.try("", "kubectl", "delete", "machine", first, "--wait=false")
	p.must(err)
	p.make(second)
	wait(t, "a person gives the host up, or the host counts as offline", func() bool {
		if p.claimant() == second {
			t.Fatal("the host is claimed for another machine while it is cut off")
		}
		return p.decide() == nil
	})
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		owners, err := p.h.owners()
		if claimed := p.claimant(); err != nil || claimed == second || len(owners) > 1 {
			t.Fatalf("the host that is cut off has owners %v, claimed by %q, want one owner: %v", owners, claimed, err)
		}
	}
	p.must(heal(p.h))
	p.belongsTo(second)
}

// decide does what a person does about the silent host: it gives the host up. If the host is being released, nobody
// notices, and decide only checks that the host counts as offline.
func (p *partition) decide() error {
	if p.at == "release" {
		if p.w.field("capstanhost", p.h.Name, `.status.conditions[?(@.type=="HostOnline")].status`) != "False" {
			return errors.New("the host still counts as alive")
		}
		return nil
	}
	_, err := p.w.try("", "host", "abandon", p.h.Name)
	return err
}

// belongsTo waits until this machine, and no other, runs on the host.
func (p *partition) belongsTo(machine string) {
	t := p.t
	t.Helper()
	wait(t, machine+" runs", func() bool {
		owners, err := p.h.owners()
		if err == nil && len(owners) > 1 {
			t.Fatalf("the host has more than one owner: %v", owners)
		}
		return err == nil && len(owners) == 1 && owners[0] == machine
	})
	wait(t, machine+" is provisioned", func() bool {
		return p.w.field("capstanmachine", machine, ".status.initialization.provisioned") == "true"
	})
	found, err := os.ReadFile(filepath.Join(p.h.Root(), "/var/tmp/two-owners"))
	if len(found) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a machine began while another one still ran on the host: %s, %v", found, err)
	}
	epoch := p.w.field("capstanhost", p.h.Name, ".spec.epoch")
	if got := p.claimant(); got != machine || epoch != "1" {
		t.Errorf("the host is claimed by %q, in epoch %s, want the new machine and epoch 1", got, epoch)
	}
}
