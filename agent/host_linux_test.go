package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/failpoint"
	"github.com/capstan-dev/capstan/internal/proc"
)

const bundles = "/opt/capstan/bundles"

// The test binary acts as the programs of a host, depending on the name by which it is called.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "capstan-agent", "capstan-agent.next":
		self, err := os.Executable()
		fatal(err)
		os.Exit(Main(versionOf(self), os.Args[1:], nil, os.Stdout, os.Stderr))
	case "kubeadm":
		fatal(syscall.Exec("/bin/sh", append([]string{"sh", "/opt/kubeadm.sh"}, os.Args[1:]...), os.Environ()))
	case "kubelet":
		listen("tcp", "127.0.0.1:10250", func() {
			fatal(unix.Mount("volume", "/var/lib/kubelet/pods/a/volume", "tmpfs", 0, ""))
		})
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

// listen calls the function that is passed as first, and then listens forever.
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

// systemctl starts services that inherit nothing, and stops none: cleaning must stop them itself.
const systemctlScript = `
echo "systemctl $*" >> /var/log/calls
case "$1 $2" in
"start containerd") env -i setsid /usr/local/bin/capstan-kube cri > /dev/null 2>&1 & ;;
"start kubelet") env -i setsid /usr/local/bin/kubelet > /dev/null 2>&1 & ;;
esac
exit 0
`

// kubeadm checks that it finds what the real kubeadm needs, and that it never runs twice at the same time.
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
	api    *testapi.Server
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
	h := &host{api: testapi.New(t), config: "/etc/capstan/agent.yaml"}
	if err := os.WriteFile(h.config, []byte(h.api.AgentConfig("/var/lib/capstan")), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// start starts an agent; failAt names the point at which the agent kills itself.
func (h *host) start(t *testing.T, failAt string) *exec.Cmd {
	t.Helper()
	return h.startTo(t, failAt, &logWriter{t: t})
}

// startTo starts an agent that logs to a writer.
func (h *host) startTo(t *testing.T, failAt string, log io.Writer) *exec.Cmd {
	t.Helper()
	return h.startProgram(t, testhost.Binary, failAt, log)
}

// startProgram starts a program as the agent, with arguments in addition to the configuration.
func (h *host) startProgram(t *testing.T, program, failAt string, log io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Args = append([]string{"capstan-agent", "--config", h.config}, args...)
	cmd.Env = append(os.Environ(), failpoint.Variable+"="+failAt)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// logWriter writes an agent's log to the test's log.
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
		t.Fatal("the agent did not reach the point at which it kills itself")
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the agent ended, but it did not kill itself: %v", cmd.ProcessState)
	}
}

func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the agent did not stop without an error: %v", err)
	}
}

// claimIt claims the host for a new machine and returns the claim's providerID.
func (h *host) claimIt(data string) string {
	h.claims++
	h.api.Claim(fmt.Sprintf("%08x", h.claims), data)
	return h.api.Host.Spec.Claim.ProviderID
}

func (h *host) waitBootstrap(t *testing.T, id string, phase v1beta2.BootstrapPhase) *v1beta2.BootstrapReport {
	t.Helper()
	h.api.Wait(t, "the end of the bootstrap", func(r *v1beta2.AgentReport) bool {
		return r.Bootstrap != nil && r.Bootstrap.ProviderID == id && r.Bootstrap.Phase != v1beta2.BootstrapRunning
	})
	h.api.Mu.Lock()
	defer h.api.Mu.Unlock()
	got := h.api.Host.Status.Agent.Bootstrap.DeepCopy()
	if got.Phase != phase {
		log, _ := os.ReadFile(bootstrap.LogPath)
		t.Fatalf("the bootstrap is %+v\n%s", got, log)
	}
	return got
}

// releaseIt releases the machine and waits until the host is clean, then clears the claim.
func (h *host) releaseIt(t *testing.T, id string) {
	t.Helper()
	h.api.Change(func() { h.api.Host.Spec.Claim.Released = true })
	h.waitClean(t, id)
}

func (h *host) waitClean(t *testing.T, id string) {
	t.Helper()
	h.api.Wait(t, "a clean host", func(r *v1beta2.AgentReport) bool {
		return r.Cleaning != nil && r.Cleaning.ProviderID == id && r.Cleaning.Done && len(r.Cleaning.Leftovers) == 0
	})
	h.api.Change(func() { h.api.Host.Spec.Claim, h.api.Secret = nil, nil })
}

// running returns the processes of a program without zombies, which nobody reaps in the throw-away host.
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
		"kubeadm's errors":  {content("/var/log/broken"), "(open /var/log/broken: no such file or directory)"},
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

// checkClean checks that a host is clean, independently of the agent's own proof.
func checkClean(t *testing.T) {
	t.Helper()
	for _, path := range []string{
		"/etc/kubernetes", "/var/lib/kubelet", "/run/kubeadm", "/run/cluster-api", "/usr/local/bin/kubelet",
		"/usr/local/bin/kubeadm", bootstrap.LogPath, "/home/bob",
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
		t.Error("the user bob is left")
	}
	if _, err := net.InterfaceByName("cni0"); err == nil {
		t.Error("the interface cni0 is left")
	}
	if mounts := content("/proc/self/mounts"); strings.Contains(mounts, "/var/lib/kubelet") {
		t.Error("the mount of the kubelet is left")
	}
	if conn, err := net.Dial("tcp", "127.0.0.1:10250"); err == nil {
		conn.Close()
		t.Error("the kubelet still runs")
	}
}
