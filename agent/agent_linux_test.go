package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/failpoint"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/proc"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

const bundles = "/opt/capstan/bundles"

// The test binary plays the programs of a host, by the name it is called by.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "capstan-agent":
		os.Exit(Main("dev", os.Args[1:], os.Stdout, os.Stderr))
	case "kubeadm":
		fatal(syscall.Exec("/bin/sh", append([]string{"sh", "/opt/kubeadm.sh"}, os.Args[1:]...), os.Environ()))
	case "kubelet":
		listen("tcp", "127.0.0.1:10250", func() { fatal(unix.Mount("volume", "/var/lib/kubelet/pods/a/volume", "tmpfs", 0, "")) })
	case "capstan-kube":
		if slices.Contains(os.Args, "cri") {
			listen("unix", "/run/containerd/containerd.sock", nil)
		}
		fmt.Println(`{"applets": ["kubeadm"]}`)
		return
	}
	os.Exit(m.Run())
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args, err)
		os.Exit(1)
	}
}

// listen does something, listens, and goes on for ever.
func listen(network, address string, first func()) {
	if network == "unix" {
		_ = os.Remove(address)
	}
	fatal(os.MkdirAll("/run/containerd", 0o755))
	fatal(os.MkdirAll("/var/lib/kubelet/pods/a/volume", 0o755))
	if first != nil {
		first()
	}
	l, err := net.Listen(network, address)
	fatal(err)
	for {
		conn, err := l.Accept()
		fatal(err)
		conn.Close()
	}
}

// systemctl starts services that don't inherit anything, and stops none: cleaning must end them by itself.
const systemctlScript = `
echo "systemctl $*" >> /var/log/calls
case "$1 $2" in
"start containerd") env -i setsid /usr/local/bin/capstan-kube cri > /dev/null 2>&1 & ;;
"start kubelet") env -i setsid /usr/local/bin/kubelet > /dev/null 2>&1 & ;;
esac
exit 0
`

// kubeadm checks what real kubeadm needs, and never runs twice at a time.
const kubeadmScript = `
echo "kubeadm $1" >> /var/log/calls
broken() { echo "$*" >> /var/log/broken; exit 1; }
exec 9> /run/kubeadm.lock
flock --nonblock 9 || broken two at a time
case $1 in
init)
	[ "$(cat /etc/kubernetes/pki/ca.key)" = key ] || broken no key
	grep -q "edited demo-" /run/kubeadm/kubeadm.yaml || broken "the configuration was not edited: $(cat /run/kubeadm/kubeadm.yaml)"
	[ "$FROM_EARLIER" = "a value" ] || broken the environment is lost
	[ -e /etc/kubernetes/manifests ] && broken not reset
	mkdir -p /etc/kubernetes/manifests
	sleep 0.05
	echo conf > /etc/kubernetes/kubelet.conf
	systemctl start kubelet 9>&-
	ip link add cni0 type bridge
	;;
reset)
	rm -rf /etc/kubernetes/* /var/lib/kubelet/config.yaml
	;;
esac
exit 0
`

const testData = `## template: jinja
#cloud-config
write_files:
- path: /etc/kubernetes/pki/ca.key
  permissions: '0600'
  content: key
- path: /run/kubeadm/kubeadm.yaml
  content: |
    name: {{ ds.meta_data.local_hostname }} {{ ds.meta_data.local_ipv4 }}
- path: /run/cluster-api/placeholder
  content: x
- path: /etc/motd
  append: true
  content: "appended\n"
bootcmd:
- echo boot >> /var/log/boot
users:
- name: bob
runcmd:
- FROM_EARLIER="a value"; sed -i 's/^name. /edited /' /run/kubeadm/kubeadm.yaml
- 'kubeadm init --config /run/kubeadm/kubeadm.yaml && echo success > /run/cluster-api/bootstrap-success.complete'
- [sh, -c, 'echo post > /var/lib/post; exit 3']
`

// host is the throw-away host with its API server.
type host struct {
	api    *apiServer
	config string
	claims int
}

func newTestHost(t *testing.T) *host {
	t.Helper()
	testhost.Executable(t, "/usr/local/bin/systemctl", systemctlScript)
	testhost.Executable(t, "/opt/kubeadm.sh", kubeadmScript)
	binary := filepath.Join(bundles, "v1.36.3", "capstan-kube")
	for _, dir := range []string{filepath.Dir(binary), "/etc/capstan"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("cp", testhost.Binary, binary).Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/etc/motd", []byte("welcome\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &host{api: newAPIServer(t), config: "/etc/capstan/agent.yaml"}
	if err := os.WriteFile(h.config, []byte(h.api.config("/var/lib/capstan")), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// start starts an agent; failAt names the point at which it kills itself.
func (h *host) start(t *testing.T, failAt string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testhost.Binary)
	cmd.Args = []string{"capstan-agent", "--config", h.config}
	cmd.Env = append(os.Environ(), failpoint.Variable+"="+failAt)
	cmd.Stderr = &logWriter{t: t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// logWriter shows an agent's log in the test's.
type logWriter struct{ t *testing.T }

func (w *logWriter) Write(data []byte) (int, error) {
	for line := range bytes.Lines(data) {
		w.t.Log(strings.TrimSpace(string(line)))
	}
	return len(data), nil
}

// killed waits until an agent has killed itself.
func killed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		t.Fatal("the point was never reached")
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the agent ended otherwise: %v", cmd.ProcessState)
	}
}

func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the agent did not end well: %v", err)
	}
}

// claimIt claims the host for a new machine and returns the claim's providerID.
func (h *host) claimIt(data string) string {
	h.claims++
	h.api.claim(fmt.Sprintf("%08x", h.claims), data)
	return h.api.host.Spec.Claim.ProviderID
}

func (h *host) waitBootstrap(t *testing.T, id string, phase v1beta2.BootstrapPhase) *v1beta2.BootstrapReport {
	t.Helper()
	h.api.wait(t, "the end of the bootstrap", func(r *v1beta2.AgentReport) bool {
		return r.Bootstrap != nil && r.Bootstrap.ProviderID == id && r.Bootstrap.Phase != v1beta2.BootstrapRunning
	})
	h.api.mu.Lock()
	defer h.api.mu.Unlock()
	got := h.api.host.Status.Agent.Bootstrap.DeepCopy()
	if got.Phase != phase {
		log, _ := os.ReadFile(bootstrap.LogPath)
		t.Fatalf("the bootstrap is %+v\n%s", got, log)
	}
	return got
}

// releaseIt releases the machine and waits until the host is clean, then clears the claim.
func (h *host) releaseIt(t *testing.T, id string) {
	t.Helper()
	h.api.change(func() { h.api.host.Spec.Claim.Released = true })
	h.waitClean(t, id)
}

func (h *host) waitClean(t *testing.T, id string) {
	t.Helper()
	h.api.wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
		return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done && len(r.Cleaning.Leftovers) == 0
	})
	h.api.change(func() { h.api.host.Spec.Claim, h.api.secret = nil, nil })
}

// running returns the processes of a program; nobody collects zombies in the throw-away host.
func running(t *testing.T, program string) []proc.Process {
	t.Helper()
	list, err := proc.Select(func(p proc.Process) bool { return p.Name == program })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func content(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

func forget(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// waitKubelet waits until the kubelet has mounted a volume and listens.
func waitKubelet(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:10250")
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the kubelet does not run: %v", err)
		}
	}
}

// checkMachine checks a host after a bootstrap.
func checkMachine(t *testing.T, id string) {
	t.Helper()
	waitKubelet(t)
	name, _ := os.Hostname()
	for what, pair := range map[string][2]string{
		"what was broken":   {content("/var/log/broken"), "(open /var/log/broken: no such file or directory)"},
		"the appended file": {content("/etc/motd"), "welcome\nappended\n"},
		"the last command":  {content("/var/lib/post"), "post\n"},
		"the host name":     {name, "demo-" + id[len(id)-8:]},
		"the configuration": {content("/run/kubeadm/kubeadm.yaml"), "edited " + name + " " + testhost.Address + "\n"},
		"the kubelet":       {content("/etc/kubernetes/kubelet.conf"), "conf\n"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
		}
	}
}

// checkClean checks a host after cleaning, apart from the agent's own proof.
func checkClean(t *testing.T) {
	t.Helper()
	for _, path := range []string{
		"/etc/kubernetes", "/var/lib/kubelet", "/run/kubeadm", "/run/cluster-api", "/usr/local/bin/kubelet", "/usr/local/bin/kubeadm", bootstrap.LogPath, "/home/bob",
	} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", path)
		}
	}
	if got := content("/etc/motd"); got != "welcome\n" {
		t.Errorf("the appended file: %q", got)
	}
	beside, err := filepath.Glob("/var/lib/capstan/journal/*/*")
	for _, path := range beside {
		if err != nil || filepath.Base(path) != "steps.jsonl" {
			t.Errorf("%s is left, %v", path, err)
		}
	}
	if strings.Contains(content("/etc/passwd"), "bob") {
		t.Error("the user is left")
	}
	if _, err := net.InterfaceByName("cni0"); err == nil {
		t.Error("the interface is left")
	}
	if mounts := content("/proc/self/mounts"); strings.Contains(mounts, "/var/lib/kubelet") {
		t.Error("the mount is left")
	}
	if conn, err := net.Dial("tcp", "127.0.0.1:10250"); err == nil {
		conn.Close()
		t.Error("the kubelet is left")
	}
}

func TestBootstrapAndRelease(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		h.api.wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		r := h.api.host.Status.Agent
		if r.Address != testhost.Address || r.OperatingSystem != "Test host" || !slices.Equal(r.KubernetesVersions, []string{"v1.36.3"}) || r.Processors < 1 || r.MemoryMiB < 1 {
			t.Errorf("facts: %+v", r)
		}
		for range 2 {
			id := h.claimIt(testData)
			got := h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			if !strings.Contains(got.Message, "first runcmd 3/3") || got.StartTime.IsZero() || got.CompletionTime.IsZero() {
				t.Errorf("report: %+v", got)
			}
			checkMachine(t, id)
			h.releaseIt(t, id)
			checkClean(t)
			forget(t, "/var/lib/post")
		}
		stop(t, agent)
		if len(h.api.denied) > 0 {
			t.Errorf("calls that the Role does not allow: %v", h.api.denied)
		}
		if h.api.beats == 0 || fmt.Sprint(h.api.lease["metadata"].(map[string]any)["labels"]) != "map[keep:me]" {
			t.Errorf("the Lease: %d beats, %v", h.api.beats, h.api.lease)
		}
		if got := strings.Count(content("/var/log/calls"), "kubeadm init"); got != 2 {
			t.Errorf("kubeadm init ran %d times for 2 machines", got)
		}
	})
}

// bootstrapSteps are all steps of testData; commands can also be hit while they run.
var bootstrapSteps = []string{
	"bundle", "hostname", "runtime", "bootcmd 1/1", "write_files", "write_files again", "users", "runcmd 1/3", "runcmd 2/3", "runcmd 3/3",
}

func TestABootstrapThatIsKilledAnywhereConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		var points []string
		for _, step := range bootstrapSteps {
			points = append(points, "started "+step, "ran "+step, "finished "+step)
			if strings.Contains(step, "cmd") {
				points = append(points, "running "+step)
			}
		}
		for _, point := range points {
			id := h.claimIt(testData)
			killed(t, h.start(t, point))
			agent := h.start(t, "")
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			checkMachine(t, id)
			calls := content("/var/log/calls")
			inits, resets := strings.Count(calls, "kubeadm init"), strings.Count(calls, "kubeadm reset")
			if inits > 2 || inits != resets+1 && (inits != 1 || resets != 1) {
				t.Errorf("kubeadm: %d times init, %d times reset", inits, resets)
			}
			h.releaseIt(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post", "/var/log/calls", "/var/log/boot")
			if t.Failed() {
				t.Fatalf("at point %q", point)
			}
		}
	})
}

func TestACommandThatIsInterruptedAgainAndAgainFails(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.claimIt(testData)
		for range 4 {
			killed(t, h.start(t, "running runcmd 2/3"))
		}
		agent := h.start(t, "")
		got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
		if got.Step != "runcmd 2/3" || !strings.Contains(got.Message, "kubeadm init was interrupted 4 times") {
			t.Errorf("report %+v", got)
		}
		if n := strings.Count(content("/var/log/calls"), "kubeadm init"); n > 4 {
			t.Errorf("kubeadm init ran %d times", n)
		}
		h.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

func TestACleaningThatIsKilledAnywhereConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, point := range []string{
			"cleaned end-commands", "cleaned kubeadm-reset", "cleaned stop-services", "cleaned end-processes", "cleaned unmount", "cleaned wipe-disks",
			"cleaned restore-files", "cleaned delete-folders", "cleaned delete-users", "cleaned network", "stripped", "proved",
		} {
			id := h.claimIt(testData)
			first := h.start(t, point)
			h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			h.api.change(func() { h.api.host.Spec.Claim.Released = true })
			killed(t, first)
			second := h.start(t, "")
			h.waitClean(t, id)
			checkClean(t)
			stop(t, second)
			forget(t, "/var/lib/post")
			if t.Failed() {
				t.Fatalf("at point %q", point)
			}
		}
	})
}

func TestAReleaseInTheMiddleOfABootstrap(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nwrite_files:\n- {path: /etc/kubernetes/x, content: x}\nruncmd:\n- setsid sleep 600 & sleep 600\n")
		h.api.wait(t, "the command", func(r *v1beta2.AgentReport) bool { return r.Bootstrap != nil && r.Bootstrap.Step == "runcmd 1/1" })
		h.releaseIt(t, id)
		checkClean(t)
		if left := running(t, "sleep"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		stop(t, agent)
	})
}

func TestAfterARebootNothingIsRunAgain(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		calls, before := content("/var/log/calls"), h.api.host.Status.Agent.BootID
		if err := unix.Mount("run", "/run", "tmpfs", 0, ""); err != nil { // /run is memory
			t.Fatal(err)
		}
		h.api.change(func() { h.api.host.Status.Agent = nil }) // and status may be lost in a move
		agent = h.start(t, "")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.wait(t, "another boot ID", func(r *v1beta2.AgentReport) bool { return r.BootID != before && r.BootID != "" })
		h.api.change(func() { h.api.host.Status.Agent = nil })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		if after := content("/var/log/calls"); after != calls {
			t.Errorf("calls after the reboot: %s", strings.TrimPrefix(after, calls))
		}
	})
}

func TestARebootInTheMiddleConverges(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for _, point := range []string{"finished write_files", "before runcmd 2/3", "running runcmd 2/3", "ran runcmd 2/3", "started runcmd 3/3"} {
			id := h.claimIt(testData)
			killed(t, h.start(t, point))
			// Programs end, and /run is empty; what was edited there before kubeadm ran is lost, as it would be with cloud-init.
			for _, name := range []string{"capstan-kube", "kubelet", "sh", "kubeadm"} {
				_ = exec.Command("pkill", "-KILL", "-x", name).Run()
			}
			if err := unix.Unmount("/run", unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
				t.Fatal(err)
			}
			agent := h.start(t, "")
			if point == "before runcmd 2/3" {
				got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
				if got.Step != "runcmd 2/3" {
					t.Errorf("report %+v", got)
				}
				forget(t, "/var/log/broken")
			} else {
				h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
			}
			h.releaseIt(t, id)
			checkClean(t)
			stop(t, agent)
			forget(t, "/var/lib/post", "/var/log/calls", "/var/log/boot")
			if t.Failed() {
				t.Fatalf("at point %q", point)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		cases := []struct{ name, data, step, message string }{
			{"not cloud-config", "{}", "bootstrap data", "must start with #cloud-config"},
			{"an unknown variable", "## template: jinja\n#cloud-config\nruncmd: ['{{ ds.meta_data.nothing }}']\n", "bootstrap data", "variable ds.meta_data.nothing is unknown"},
			{"disks", "#cloud-config\ndisk_setup: {/dev/sdb: {layout: true}}\n", "disk_setup", "a local host has no disks"},
			{"an owner", "#cloud-config\nwrite_files: [{path: /x, owner: hunter2}]\n", "write_files", "file 1 of 1: its owner doesn't exist"},
			{"kubeadm", "#cloud-config\nruncmd:\n- kubeadm init hunter2 && echo > /run/cluster-api/bootstrap-success.complete\n- touch /run/after\n", "runcmd 1/2", "kubeadm init ended with exit status 1"},
			{"the last command", "#cloud-config\nruncmd:\n- true\n- echo hunter2; exit 5\n", "runcmd 2/2", "the last command ended with exit status 5"},
		}
		for _, c := range cases {
			id := h.claimIt(c.data)
			got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
			if got.Step != c.step || !strings.Contains(got.Message, c.message) || !strings.Contains(got.Message, bootstrap.LogPath) || strings.Contains(got.Message, "hunter2") {
				t.Errorf("%s: %+v", c.name, got)
			}
			forget(t, "/var/log/broken")
			h.releaseIt(t, id)
		}
		h.api.claim("other", "#cloud-config\n")
		h.api.change(func() { h.api.host.Spec.Claim.KubernetesVersion = "v1.30.0" })
		if _, err := os.Stat("/run/after"); err == nil {
			t.Error("commands went on after kubeadm failed")
		}
		stop(t, agent)
	})
}

func TestAVersionThatIsNotThere(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.claim("00000001", "#cloud-config\n")
		h.api.host.Spec.Claim.KubernetesVersion = "v1.30.0"
		agent := h.start(t, "")
		got := h.waitBootstrap(t, "capstan://default/h1/00000001", v1beta2.BootstrapFailed)
		if got.Step != "bundle" || !strings.Contains(got.Message, "no bundle of Kubernetes v1.30.0 in "+bundles+"; it has v1.36.3") {
			t.Errorf("report %+v", got)
		}
		stop(t, agent)
	})
}

func TestAServerThatFailsAndATokenThatIsGone(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.failures = 12
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.change(func() { clear(h.api.tokens) }) // all are withdrawn
		h.api.CloseClientConnections()
		if err := os.WriteFile(h.config, []byte(h.api.config("/var/lib/capstan")), 0o600); err != nil { // and the host enrolled anew
			t.Fatal(err)
		}
		h.releaseIt(t, id)
		stop(t, agent)
		if info, err := os.Stat("/var/lib/capstan/token"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kept token: %v, %v", info, err)
		}
	})
}

func TestASecretOfAnotherClaimIsNotUsed(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		id := h.claimIt("#cloud-config\n")
		right := h.api.secret
		h.api.secret = map[string][]byte{"value": []byte("#cloud-config\nruncmd: [touch /run/wrong]\n"), "metadata": []byte(`{"provider_id":"capstan://default/h1/99999999"}`)}
		agent := h.start(t, "")
		h.api.wait(t, "the first look", func(r *v1beta2.AgentReport) bool { return r.Bootstrap != nil && r.Bootstrap.Step == "bootstrap data" })
		h.api.change(func() { h.api.secret = right })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		if _, err := os.Stat("/run/wrong"); err == nil {
			t.Error("data of another claim was run")
		}
		stop(t, agent)
	})
}

func TestASuppliedHostIsNotCleaned(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.host.Spec.Supplier = "dock"
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nruncmd: [setsid sleep 600 & sleep 600]\n")
		h.api.wait(t, "the command", func(r *v1beta2.AgentReport) bool { return r.Bootstrap != nil && r.Bootstrap.Step == "runcmd 1/1" })
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if len(running(t, "sleep")) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the bootstrap goes on after the release")
			}
		}
		stop(t, agent)
		if h.api.host.Status.Agent.Cleaning != nil || strings.Contains(content("/var/log/calls"), "stop kubelet") {
			t.Errorf("the agent cleaned after %s", id)
		}
	})
}

func TestLeftoversAreReportedAndTriedAgain(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		waitKubelet(t)
		keep, err := os.Open("/var/lib/kubelet/pods/a/volume") // a process that is not the machine's holds a mount
		if err != nil {
			t.Fatal(err)
		}
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		h.api.wait(t, "what is left", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.Done && slices.Contains(r.Cleaning.Leftovers, "mount /var/lib/kubelet/pods/a/volume") &&
				slices.Contains(r.Cleaning.Leftovers, "path /var/lib/kubelet")
		})
		keep.Close()
		h.waitClean(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

// journalOf returns the path of the record file of a claim.
func journalOf(t *testing.T, id string) string {
	t.Helper()
	found, err := filepath.Glob("/var/lib/capstan/journal/*" + id[len(id)-8:] + "*/steps.jsonl")
	if err != nil || len(found) != 1 {
		t.Fatalf("journals: %q, %v", found, err)
	}
	return found[0]
}

// damage makes the first line of a file that has a text unreadable.
func damage(t *testing.T, path, text string) {
	t.Helper()
	before, after, found := strings.Cut(content(path), text)
	if !found {
		t.Fatalf("%s has no %s", path, text)
	}
	if err := os.WriteFile(path, []byte(before+"\x01"+text+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitDamaged waits until a damaged journal is reported as left, and deletes it as somebody would who has looked at the host.
func (h *host) waitDamaged(t *testing.T, id string) {
	t.Helper()
	aside := ""
	h.api.wait(t, "the damaged journal", func(r *v1beta2.AgentReport) bool {
		if r.Cleaning == nil || r.Cleaning.ProviderID != id || !r.Cleaning.Done || len(r.Cleaning.Leftovers) != 1 {
			return false
		}
		path, found := strings.CutPrefix(r.Cleaning.Leftovers[0], "path ")
		aside, _, _ = strings.Cut(path, ": ")
		return found && strings.HasSuffix(aside, "steps.jsonl.damaged")
	})
	if err := os.Remove(aside); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedJournalIsLeftForAPerson(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		damage(t, journalOf(t, id), `"event":"finish","step":"runcmd 2/3"`)
		agent = h.start(t, "")
		h.api.wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded) // what can be read says so
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		h.waitDamaged(t, id)
		h.waitClean(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

func TestADamagedJournalOfAnotherClaim(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		first := h.claimIt(testData)
		h.waitBootstrap(t, first, v1beta2.BootstrapSucceeded)
		stop(t, agent)
		damage(t, journalOf(t, first), `"event":"open"`)
		agent = h.start(t, "")
		second := h.claimIt(testData)
		if got := h.waitBootstrap(t, second, v1beta2.BootstrapFailed); !strings.Contains(got.Message, "the host still carries the machine of an unknown claim") {
			t.Errorf("report %+v", got)
		}
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		h.waitDamaged(t, second)
		h.waitClean(t, second)
		checkClean(t)
		third := h.claimIt(testData)
		h.waitBootstrap(t, third, v1beta2.BootstrapSucceeded)
		stop(t, agent)
	})
}

func TestABootstrapWhoseJournalIsDamagedOrFullFails(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		for message, spoil := range map[string]func(id string){
			"the journal is damaged at byte": func(id string) { damage(t, journalOf(t, id), `"event":"finish","step":"bundle"`) },
			"the journal is full": func(id string) {
				j, err := journal.Open("/var/lib/capstan/journal", id)
				if err != nil {
					t.Fatal(err)
				}
				for size := 1 << 20; size > 0; size /= 2 {
					for i := 0; err == nil; i++ {
						err = j.Note("filler", fmt.Sprint(size, i, strings.Repeat("x", size)))
					}
					err = nil
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			},
		} {
			id := h.claimIt(testData)
			killed(t, h.start(t, "finished write_files"))
			spoil(id)
			agent := h.start(t, "")
			if got := h.waitBootstrap(t, id, v1beta2.BootstrapFailed); got.Step != "journal" || !strings.Contains(got.Message, message) {
				t.Errorf("report %+v", got)
			}
			h.api.change(func() { h.api.host.Spec.Claim.Released = true })
			if strings.Contains(message, "damaged") {
				h.waitDamaged(t, id)
			}
			h.waitClean(t, id)
			checkClean(t)
			stop(t, agent)
		}
	})
}

// What keeps the agent from a result is reported, and it goes on when it can.
func TestAJournalThatCantBeOpenedIsReported(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		blocked := func() {
			t.Helper()
			if err := os.WriteFile("/var/lib/capstan/journal", nil, 0o600); err != nil { // where the folder of all journals is to be
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll("/var/lib/capstan", 0o700); err != nil {
			t.Fatal(err)
		}
		blocked()
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\n")
		h.api.wait(t, "the reason", func(r *v1beta2.AgentReport) bool {
			return r.Bootstrap != nil && r.Bootstrap.Phase == v1beta2.BootstrapRunning && strings.Contains(r.Bootstrap.Message, "opening the journal")
		})
		forget(t, "/var/lib/capstan/journal")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		stop(t, agent) // whatever it is shown, it opens the journal, which makes the folder
		if err := os.RemoveAll("/var/lib/capstan/journal"); err != nil {
			t.Fatal(err)
		}
		blocked()
		agent = h.start(t, "")
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		h.api.wait(t, "the reason", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.Done && len(r.Cleaning.Leftovers) == 1 && strings.Contains(r.Cleaning.Leftovers[0], "opening the journal")
		})
		forget(t, "/var/lib/capstan/journal")
		h.waitClean(t, id)
		stop(t, agent)
	})
}

// A claim that follows at once leaves the worker no time to remove old journals without one.
func TestOldJournalsGoAlsoWhenClaimsFollowAtOnce(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.start(t, "")
		id := h.claimIt("#cloud-config\nruncmd: [\"true\"]\n")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		h.api.change(func() { h.api.host.Spec.Claim.Released = true })
		h.api.wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
			return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done
		})
		id = h.claimIt("#cloud-config\nruncmd: [\"true\"]\n")
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		journalOf(t, id)
		if all, err := os.ReadDir("/var/lib/capstan/journal"); err != nil || len(all) != 1 {
			t.Errorf("journals: %v, %v", all, err)
		}
		stop(t, agent)
	})
}

// The hand-over looks at journals while the worker writes them.
func TestWhatIsCarriedIsOnlyLookedAt(t *testing.T) {
	a := &agent{config: config.Config{StateDir: t.TempDir()}}
	j, err := journal.Open(a.config.JournalDir(), "capstan://default/h1/0a1b2c3d")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Start("write_files", ""); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.Dir(), "steps.jsonl")
	half := content(path) + `{"event":"fin`
	if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(a.config.JournalDir(), "begun"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := a.carried()
	if err != nil || !slices.Equal(all, []carried{{claim: j.Claim()}}) {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(a.config.JournalDir(), "begun")); err != nil || content(path) != half {
		t.Errorf("the journals were changed: %v", err)
	}
}

func TestOnlyOneAgentRuns(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		first := h.start(t, "")
		h.api.wait(t, "the facts", func(r *v1beta2.AgentReport) bool { return r.BootID != "" })
		second := exec.Command(testhost.Binary)
		second.Args = []string{"capstan-agent", "--config", h.config}
		out, err := second.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another agent runs on this host") {
			t.Errorf("got %v: %s", err, out)
		}
		stop(t, first)
	})
}

func TestMainProgram(t *testing.T) {
	cases := map[string]struct {
		args        []string
		code        int
		out, errOut string
	}{
		"the version":          {[]string{"--version"}, 0, "capstan-agent dev\n", ""},
		"help":                 {[]string{"--help"}, 0, "", "-config"},
		"an unknown flag":      {[]string{"--nothing"}, 2, "", "nothing"},
		"an argument":          {[]string{"run"}, 2, "", `unknown argument "run"`},
		"no configuration":     {[]string{"--config", "/does/not/exist"}, 1, "", "enroll the host"},
		"a directory is wrong": {[]string{"--config", "/"}, 1, "", "capstan-agent: reading"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := Main("dev", c.args, &out, &errOut); code != c.code {
				t.Errorf("exit code %d", code)
			}
			if out.String() != c.out || !strings.Contains(errOut.String(), c.errOut) {
				t.Errorf("stdout %q, stderr %q", &out, &errOut)
			}
		})
	}
}
