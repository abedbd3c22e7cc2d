package hosts

import (
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// plant is bootstrap data that leaves something on its host.
type plant struct {
	leave []string // commands of the bootstrap, as root
	named []string // leftovers that the host's condition names
	mend  string   // the command that removes them
}

// plants are the ways in which a machine once left something on its host unnoticed.
var plants = map[string]plant{
	"processes": {
		leave: []string{
			"for n in 1 2 3; do env -i setsid sleep 10000$n > /dev/null 2>&1 < /dev/null & done",
			"env -i setsid socat TCP-LISTEN:4444,fork OPEN:/dev/null > /dev/null 2>&1 < /dev/null &",
			"until ss -ltn | grep -q :4444 && [ $(pgrep -c '^sleep$') -ge 3 ]; do sleep 0.1; done",
		},
		named: []string{
			`"sleep 100001"`, `"sleep 100002"`, `"sleep 100003"`, "process /usr/bin/socat", "socket tcp 4444",
		},
		mend: "pkill -f 'sleep 10000[123]'; pkill socat",
	},
	"user": {
		leave: []string{"echo 'toor:x:0:0::/root:/bin/sh' >> /etc/passwd"},
		named: []string{"path /etc/passwd"},
		mend:  "sed -i /^toor:/d /etc/passwd",
	},
	"keys": {
		leave: []string{"mkdir -p /root/.ssh", "echo 'ssh-ed25519 AAAA me' > /root/.ssh/authorized_keys"},
		named: []string{"path /root/.ssh/authorized_keys"},
		mend:  "rm /root/.ssh/authorized_keys",
	},
	"shell": {
		leave: []string{"cp /bin/sh /var/lib/sh", "chmod 4755 /var/lib/sh"},
		named: []string{"path /var/lib/sh, a program with rights of its own"},
		mend:  "rm /var/lib/sh",
	},
	"loader": {
		leave: []string{"echo /var/tmp/missing.so > /etc/ld.so.preload"},
		named: []string{"path /etc/ld.so.preload"},
		mend:  "rm /etc/ld.so.preload",
	},
	"unit": {
		leave: []string{
			"printf '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n' " +
				"> /etc/systemd/system/left.service",
			"systemctl enable left.service",
		},
		named: []string{"left.service"},
		mend:  "systemctl disable left.service; rm /etc/systemd/system/left.service",
	},
	"mount": {
		leave: []string{"mkdir /mnt/left", "mount -t tmpfs left /mnt/left"},
		named: []string{"mount /mnt/left (tmpfs of left)"},
		mend:  "umount /mnt/left; rmdir /mnt/left",
	},
	"address": {
		leave: []string{"ip address add 198.51.100.9/32 dev eth0"},
		named: []string{"address 198.51.100.9/32 on eth0"},
		mend:  "ip address delete 198.51.100.9/32 dev eth0",
	},
}

// planting returns a machine with the bootstrap data of a plant.
func planting(host string, p plant) string {
	text, _, _ := strings.Cut(owned, "    write_files:")
	text += "    runcmd:\n"
	for _, line := range p.leave {
		text += "    - |\n      " + strings.ReplaceAll(line, "\n", `\n`) + "\n"
	}
	return strings.NewReplacer("NAME", host, "HOST", host).Replace(text)
}

// TestLeftovers: the host's condition names whatever a machine plants on the host. The host stays out of the pool, and
// returns to the pool by itself when somebody has removed the leftovers.
func TestLeftovers(t *testing.T) {
	w := newWorld(t)
	w.run(cluster, "kubectl", "apply", "-f", "-")
	hosts, last := map[string]*host{}, 11
	for name := range plants {
		hosts[name] = w.enroll(name, last)
		if _, err := hosts[name].does("echo 'bundles: packages' >> /etc/capstan/agent.yaml; " +
			"systemctl restart capstan-agent"); err != nil {
			t.Fatal(err)
		}
		last++
	}
	t.Run("hosts", func(t *testing.T) {
		for name, p := range plants {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w.found(t, hosts[name], p)
			})
		}
	})
}

// found plants something on a host, checks that the host's condition names it, and removes it.
func (w *world) found(t *testing.T, h *host, p plant) {
	w.ready(t, h.Name)
	if _, err := w.try(planting(h.Name, p), "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the machine is provisioned", func() bool {
		return w.field("capstanmachine", h.Name, ".status.initialization.provisioned") == "true"
	})
	if _, err := w.try("", "kubectl", "delete", "machine", h.Name, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	const clean = `.status.conditions[?(@.type=="Clean")]`
	wait(t, "the host is found unclean", func() bool {
		return w.field("capstanhost", h.Name, clean+".reason") == infrav1.LeftoversFoundReason
	})
	message := w.field("capstanhost", h.Name, clean+".message")
	t.Log(message)
	for _, want := range p.named {
		if !strings.Contains(message, want) {
			t.Errorf("the condition does not name %s", want)
		}
	}
	if listed, err := w.try("", "host", "list"); err != nil || !strings.Contains(stateOf(listed, h.Name), "Quarantined") {
		t.Errorf("the host is not kept out of the pool: %v\n%s", err, listed)
	}
	if _, err := h.does(p.mend); err != nil {
		t.Fatal(err)
	}
	w.ready(t, h.Name)
	if left := w.field("capstanhost", h.Name, ".spec.claim.machine"); left != "" {
		t.Errorf("the clean host is still claimed by %s", left)
	}
}

// stateOf returns the line of a host in a list.
func stateOf(list, name string) string {
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == name {
			return line
		}
	}
	return ""
}
