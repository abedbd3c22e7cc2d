//go:build linux

package dock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

// everyQuestion asks the dock 20 times at a port that nobody serves, and prints which questions got no answer.
const everyQuestion = `bash -c 'for i in $(seq 20); do
	exec 3<>/dev/udp/` + dock.Gateway + `/9; echo x >&3; read -r -t 1 <&3 2>/dev/null
	[ $? -gt 128 ] && echo "no answer to question $i"
done; true'`

func TestAHostIsAnOrdinaryHost(t *testing.T) {
	c := start(t, t.TempDir())
	h := ensure(t, c, dock.HostSpec{
		Name: "host-1", Files: append(sleepd, dock.File{Path: "/etc/capstan/agent.yaml", Data: []byte("x")}),
		Env: []string{"GREETING=hello"},
	})
	for script, want := range map[string]string{
		"hostname":                           "host-1",
		"cat /proc/1/comm":                   "capstan-init",
		"id -u":                              "0",
		"stat -c %a /etc/capstan/agent.yaml": "600",
		"stat -c %a /tmp":                    "1777",
		"readlink /var/run":                  "../run",
		"cat /proc/sys/net/ipv4/ip_forward":  "1",
		everyQuestion:                        "", // each is refused at once
		"touch /usr/bin/x 2>&1 | grep -c Read-only":        "1",
		"touch /opt/capstan/bin/x 2>&1 | grep -c Read-on":  "1",
		"test -w /usr/local/bin && echo yes":               "yes",
		"grep -c . /etc/machine-id":                        "1",
		"cat /sys/fs/cgroup/cgroup.controllers | wc -w":    "9",
		"ls -A /home; ls -A /root":                         "",
		"systemctl is-active nosuch; echo $?":              "inactive\n4",
		"getent hosts host-1 | cut -d' ' -f1":              h.Address,
		"ls /sys/class/net | tr '\\n' ' '":                 "eth0 lo",
		"echo x > /dev/null && head -c3 /dev/zero | wc -c": "3",
	} {
		if got := strings.TrimSpace(must(t, h, script)); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	// Use services as kubeadm and users do.
	must(t, h, "systemctl enable --now sleepd")
	if got := strings.TrimSpace(must(t, h, "systemctl is-active sleepd; systemctl is-enabled sleepd")); got !=
		"active\nenabled" {
		t.Errorf("sleepd is %q", got)
	}
	eventually(t, "the service has the host's environment", func() bool {
		out, _ := in(t, h, "journalctl -u sleepd")
		return strings.Contains(out, "hello")
	})
	// A changed host name survives.
	must(t, h, "hostnamectl set-hostname renamed")
	if got := strings.TrimSpace(must(t, h, "hostname; getent hosts renamed | cut -d' ' -f1")); got != "renamed\n"+
		h.Address {
		t.Errorf("after a change of the host name: %q", got)
	}
	id := must(t, h, "cat /etc/machine-id; touch /tmp/x /run/y /var/lib/z")
	boot := must(t, h, "cat /proc/sys/kernel/random/boot_id")

	if err := c.RebootHost(short(t), "host-1"); err != nil {
		t.Fatal(err)
	}
	again := hostOf(t, c, "host-1")
	if again.PID == h.PID || again.Address != h.Address || again.State != dock.HostRunning {
		t.Errorf("after a reboot: %+v, before: %+v", again, h)
	}
	if got := must(t, again, "cat /etc/machine-id"); got != id {
		t.Errorf("the machine id is %q, was %q", got, id)
	}
	if got := must(t, again, "cat /proc/sys/kernel/random/boot_id"); got == boot {
		t.Errorf("the boot id is still %q", got)
	}
	if got := strings.TrimSpace(must(t, again, "hostname; ls /tmp /run/y 2>/dev/null | wc -w; ls /var/lib/z")); got !=
		"renamed\n1\n/var/lib/z" {
		t.Errorf("after a reboot: %q", got)
	}
	eventually(t, "the enabled service runs", func() bool {
		_, code := in(t, again, "systemctl is-active sleepd")
		return code == 0
	})
}

// agentFile returns the file that a host's agent reads, with this text as its content.
func agentFile(text string) []dock.File {
	return []dock.File{{Path: "/etc/capstan/agent.yaml", Mode: 0o600, Data: []byte(text)}}
}

func TestFilesReachAHostThatRuns(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile("old")})
	must(t, h, "chmod 644 /etc/capstan/agent.yaml; chown 1:1 /etc/capstan/agent.yaml || true")
	again := ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile("new")})
	if again.PID != h.PID {
		t.Errorf("the host was restarted: %+v, was %+v", again, h)
	}
	if got := must(t, h,
		"cat /etc/capstan/agent.yaml; stat -c ' %a %u %g' /etc/capstan/agent.yaml; ls /etc/capstan"); got !=
		"new 600 0 0\nagent.yaml\n" {
		t.Errorf("the host sees %q", got)
	}
	// New files also reach a host that a restarted dock has started by itself, without being given files.
	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	c = start(t, home)
	eventually(t, "the host runs again", func() bool { return hostOf(t, c, "host-1").State == dock.HostRunning })
	h = ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile("newest")})
	if got := must(t, h, "cat /etc/capstan/agent.yaml"); got != "newest" {
		t.Errorf("after a restart of the dock, the host sees %q", got)
	}
	// A file that can't be written causes an error, but the host keeps running.
	must(t, h, "mkdir /etc/full; touch /etc/full/x")
	_, err := c.EnsureHost(short(t), dock.HostSpec{
		Name: "host-1", Files: []dock.File{{Path: "/etc/full", Data: []byte("x")}},
	})
	if now := hostOf(t, c, "host-1"); err == nil || now.PID != h.PID || now.State != dock.HostRunning {
		t.Errorf("a file in place of a directory: %v; the host is %+v", err, now)
	}
	if now := ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile("newest")}); now.Error != "" {
		t.Errorf("the host is %+v", now)
	}
}

func TestFilesThatComeWhileAHostStartsAreNotLost(t *testing.T) {
	c := start(t, t.TempDir())
	ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile("0")})
	for i := range 5 {
		if err := c.StopHost(short(t), "host-1"); err != nil {
			t.Fatal(err)
		}
		var first sync.WaitGroup
		first.Go(func() {
			if err := c.StartHost(short(t), "host-1"); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "the host starts", func() bool { return hostOf(t, c, "host-1").State != dock.HostStopped })
		want := fmt.Sprintf("start %d", i)
		h := ensure(t, c, dock.HostSpec{Name: "host-1", Files: agentFile(want)})
		first.Wait()
		if got := must(t, h, "cat /etc/capstan/agent.yaml"); got != want {
			t.Errorf("the host sees %q, want %q", got, want)
		}
	}
}

func TestHostsReachEachOtherAndNothingElse(t *testing.T) {
	c := start(t, t.TempDir())
	var hosts []dock.Host
	for i := range 3 {
		hosts = append(hosts, ensure(t, c, dock.HostSpec{Name: fmt.Sprintf("host-%d", i), Files: []dock.File{{
			Path: "/etc/systemd/system/answer.service", Mode: 0o644,
			Data: []byte("[Service]\nExecStart=/usr/bin/python3 -m http.server --bind 0.0.0.0 8080\n" +
				"WorkingDirectory=/etc/capstan\n[Install]\nWantedBy=multi-user.target\n"),
		}}}))
	}
	if _, code := in(t, hosts[1], "command -v python3"); code != 0 {
		t.Skip("no python3 on this machine to serve with")
	}
	must(t, hosts[1], "systemctl start answer")
	get := `python3 -c "import urllib.request; print(urllib.request.urlopen('http://%s:8080/', timeout=2).status)"`
	eventually(t, "one host reaches the other", func() bool {
		out, _ := in(t, hosts[0], fmt.Sprintf(get, hosts[1].Address))
		return strings.TrimSpace(out) == "200"
	})
	// The machine has no route into the dock, and hosts can't reach addresses outside of the dock.
	if out, code := in(t, hosts[0],
		`python3 -c "import socket; socket.create_connection(('192.0.2.1', 80), 2)"`); code == 0 ||
		!strings.Contains(out, "unreachable") {
		t.Errorf("an address outside of the dock: exit %d, %s", code, out)
	}
}

func TestPowerOffAndRebootFromWithin(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	in(t, h, "systemctl reboot") // may end this shell before the call returns
	eventually(t, "the host is back", func() bool {
		now := hostOf(t, c, "host-1")
		return now.State == dock.HostRunning && now.PID != h.PID
	})
	if now := hostOf(t, c, "host-1"); now.Restarts != 0 {
		t.Errorf("a reboot counts as a crash: %+v", now)
	}
	h = hostOf(t, c, "host-1")
	in(t, h, "poweroff")
	eventually(t, "the host is off", func() bool { return hostOf(t, c, "host-1").State == dock.HostStopped })
	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	c = start(t, home)
	if now := hostOf(t, c, "host-1"); now.State != dock.HostStopped {
		t.Errorf("after a restart of the dock, the host is %s", now.State)
	}
	ensure(t, c, dock.HostSpec{Name: "host-1"})
}

func TestStopAndStart(t *testing.T) {
	c := start(t, t.TempDir())
	h := ensure(t, c, dock.HostSpec{Name: "host-1", Files: sleepd})
	must(t, h, "systemctl enable --now sleepd")
	began := time.Now()
	for range 2 {
		if err := c.StopHost(short(t), "host-1"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if now := hostOf(t, c, "host-1"); now.State != dock.HostStopped || now.PID != 0 {
		t.Errorf("the host is %+v", now)
	}
	for range 2 {
		if err := c.StartHost(short(t), "host-1"); err != nil {
			t.Fatal(err)
		}
	}
	if now := hostOf(t, c, "host-1"); now.State != dock.HostRunning || now.Address != h.Address {
		t.Errorf("the host is %+v", now)
	}
	for _, call := range []error{c.StopHost(short(t), "nosuch"), c.StartHost(short(t), "nosuch"),
		c.RebootHost(short(t), "nosuch")} {
		if dock.CodeOf(call) != dock.CodeNotFound {
			t.Errorf("a call for a missing host: %v", call)
		}
	}
}

func TestAKilledHostComesBack(t *testing.T) {
	c := start(t, t.TempDir())
	h := ensure(t, c, dock.HostSpec{Name: "host-1", Files: sleepd})
	must(t, h, "systemctl enable --now sleepd; setsid sleep 1000 >/dev/null 2>&1 &")
	for i := 1; i <= 3; i++ {
		kill(t, h.PID)
		eventually(t, "the host runs again", func() bool {
			now := hostOf(t, c, "host-1")
			return now.State == dock.HostRunning && now.PID != h.PID && now.Restarts == i
		})
		h = hostOf(t, c, "host-1")
		eventually(t, "the host's service runs again", func() bool {
			_, code := in(t, h, "systemctl is-active sleepd")
			return code == 0
		})
	}
}

func TestDeletedMeansGone(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1", Files: sleepd})
	must(t, h, "systemctl enable --now sleepd; mkdir -p /var/lib/x/y; chmod 000 /var/lib/x")
	for range 2 {
		if err := c.DeleteHost(short(t), "host-1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(dock.HostDir(home, "host-1")); !os.IsNotExist(err) {
		t.Errorf("the deleted host's directory: %v", err)
	}
	if hosts, _ := c.ListHosts(short(t)); len(hosts) != 0 {
		t.Errorf("hosts are %+v", hosts)
	}
	if left := leftover(filepath.Join(home, "dock/hosts/host-1")); left != "" {
		t.Errorf("left of the deleted host: %s", left)
	}
	next := ensure(t, c, dock.HostSpec{Name: "host-1"})
	if next.Address == h.Address {
		t.Error("a new host got the address of a host that was just deleted")
	}
	if _, code := in(t, next, "test -e /etc/systemd/system/sleepd.service"); code == 0 {
		t.Error("the new host has a file of the old one")
	}
}

func TestManyCallsForOneHostMakeOneHost(t *testing.T) {
	c := start(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if _, err := c.EnsureHost(short(t), dock.HostSpec{Name: "host-1"}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	all.Wait()
	hosts, err := c.ListHosts(short(t))
	if err != nil || len(hosts) != 1 || hosts[0].State != dock.HostRunning || hosts[0].Restarts != 0 {
		t.Errorf("hosts are %+v, %v", hosts, err)
	}
	// Whatever the order of the calls, the result is either a complete host or none.
	for i := range 6 {
		all.Go(func() {
			if i%2 == 0 {
				c.DeleteHost(short(t), "host-1")
			} else if _, err := c.EnsureHost(short(t), dock.HostSpec{Name: "host-1"}); err != nil &&
				dock.CodeOf(err) != dock.CodeFailed {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	all.Wait()
	ensure(t, c, dock.HostSpec{Name: "host-1"})
}

func TestBadSpecsAreRefused(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	for name, spec := range map[string]dock.HostSpec{
		"a name with a slash":        {Name: "../x"},
		"a name in upper case":       {Name: "Host"},
		"a name that is too long":    {Name: strings.Repeat("x", 64)},
		"a relative path":            {Name: "x", Files: []dock.File{{Path: "etc/x"}}},
		"a path with ..":             {Name: "x", Files: []dock.File{{Path: "/etc/../../x"}}},
		"a variable without a value": {Name: "x", Env: []string{"A"}},
	} {
		if _, err := c.EnsureHost(short(t), spec); dock.CodeOf(err) != dock.CodeInvalid {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(home, "dock/hosts")); len(entries) > 0 {
		t.Errorf("a refused host left something: %v", entries)
	}
}

func BenchmarkHost(b *testing.B) {
	c := start(b, b.TempDir())
	i := 0
	b.Run("create and start", func(b *testing.B) {
		for b.Loop() {
			ensure(b, c, dock.HostSpec{Name: fmt.Sprintf("host-%d", i)})
			i++
		}
	})
	b.Run("delete", func(b *testing.B) {
		for b.Loop() {
			if i--; i < 0 {
				b.Skip("no host is left to delete")
			}
			if err := c.DeleteHost(short(b), fmt.Sprintf("host-%d", i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
