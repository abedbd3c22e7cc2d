package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/templates"
	"github.com/capstan-dev/capstan/test/leftovers"
	"github.com/capstan-dev/capstan/test/machine"
)

// BundleVariable names the environment variable with the bundle that hosts get.
const BundleVariable = "CAPSTAN_TEST_BUNDLE"

const planeAddress = "192.0.2.1"

func TestMain(m *testing.M) { os.Exit(machine.Main(m)) }

// world has the home and the binary of the plane (the person's laptop), and the machines (the person's computers).
type world struct {
	*testing.T
	began    time.Time
	capstan  string
	home     string
	lan      *machine.LAN
	machines []*machine.Machine
	slowness time.Duration // the factor by which everything may take longer
}

// TestRun creates a cluster of three computers that have nothing of Kubernetes.
func TestRun(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	w.step("machines booted")
	w.asWritten(dir)
	w.breakdown()
	w.pods(dir)
	w.returned()
}

// returned deletes the cluster, and waits until its hosts are free.
func (w *world) returned() {
	w.Helper()
	w.run("cluster", "delete", "rack", "--timeout", w.patience().String())
	w.step("cluster deleted")
	w.until("hosts are free and clean", w.available)
	w.step("hosts Available again")
}

// className is the class of this test.
const className = "capstan-machine"

// class creates a class like capstan-owned whose kubeadm also works where the kernel has only control groups of version
// 1, or where everything is slow. These machines need such settings; the published class does not have them.
func (w *world) class(dir string) {
	w.Helper()
	text := string(templates.Owned)
	settings := map[string]string{"nodeRegistration:\n": "ignorePreflightErrors: [SystemVerification]"}
	if w.slowness > 1 {
		limits := fmt.Sprintf("timeouts: {controlPlaneComponentHealthCheckSeconds: %[1]d, "+
			"kubeletHealthCheckSeconds: %[1]d, kubernetesAPICallSeconds: %[1]d, etcdAPICallSeconds: %[1]d, "+
			"tlsBootstrapSeconds: %[1]d}", int((5 * time.Minute * w.slowness).Seconds()))
		settings = map[string]string{"initConfiguration:\n": limits, "joinConfiguration:\n": limits}
		// capstan-owned has timeouts, too. They come later in the text, and would override these.
		text = regexp.MustCompile(`(?m)^ *timeouts: .*\n`).ReplaceAllString(text, "")
		const startup = "nodeStartupTimeoutSeconds: 1200" // a health check would replace the machine
		text = strings.ReplaceAll(text, startup,
			fmt.Sprintf("nodeStartupTimeoutSeconds: %d", 1200*w.slowness))
	}
	text = strings.ReplaceAll(text, "capstan-owned", className)
	for section, setting := range settings {
		text = strings.ReplaceAll(text, section, section+"@"+setting+"\n")
	}
	lines := strings.Split(text, "\n")
	for n, line := range lines { // give a setting the indentation of the next line
		if rest, is := strings.CutPrefix(line, "@"); is {
			next := lines[n+1]
			lines[n] = next[:len(next)-len(strings.TrimLeft(next, " "))] + rest
		}
	}
	path := filepath.Join(dir, "class.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run("kubectl", "apply", "-f", path)
}

// available reports whether all machines are free hosts.
func (w *world) available() (bool, string) {
	free, text := w.free()
	return free == len(w.machines), text
}

// free returns the number of machines that are free hosts. If a host is in quarantine, free fails the test at once,
// because waiting would not help.
func (w *world) free() (free int, text string) {
	w.Helper()
	text = w.run("host", "list")
	if strings.Contains(text, "Quarantined") {
		w.Fatalf("a host is not clean:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "rack1-") && strings.Contains(line, "Available") {
			free++
		}
	}
	return free, text
}

// newWorld starts three machines, and creates a home for the plane.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv(machine.Wanted) == "" || os.Getenv(BundleVariable) == "" {
		t.Skip("starts machines, and gives them a bundle: make test-owned")
	}
	root, err := machine.Root()
	if err != nil {
		t.Fatal(err)
	}
	w, dir := newPlace(t)
	for n := 1; n <= 3; n++ {
		name, address := fmt.Sprintf("rack1-%02d", n), fmt.Sprintf("192.0.2.%d", 10+n)
		m, err := machine.Start(t.Context(), w.lan, root, dir, name, address)
		if err != nil {
			t.Fatal(err)
		}
		w.machines = append(w.machines, m)
		// In nested namespaces, the kernel lets nobody lower the OOM score. And the machines must not depend on how full this
		// computer's disk is.
		w.on(m, `mkdir -p /etc/containerd/conf.d && cat > /etc/containerd/conf.d/machine.toml <<'END'
version = 3
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
END
mkdir -p /etc/capstan/kubeadm.d && cat > /etc/capstan/kubeadm.d/machine.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
evictionHard: {memory.available: 100Mi, nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
END`)
	}
	return w
}

// newPlace creates a network, and directories for the plane and the machines' data.
func newPlace(t *testing.T) (w *world, dir string) {
	t.Helper()
	capstan, err := filepath.Abs("../../../bin/capstan")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{capstan, os.Getenv(BundleVariable)} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("run make build, and set %s to a bundle: %v", BundleVariable, err)
		}
	}
	lan, err := machine.NewLAN(planeAddress, 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lan.Remove(); err != nil {
			t.Error(err)
		}
	})
	dir, err = os.MkdirTemp("", "capstan-run-") // the path of t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	w = &world{T: t, began: time.Now(), capstan: capstan, lan: lan, home: filepath.Join(dir, "home")}
	t.Cleanup(func() { w.end(dir) })
	return w, dir
}

// end stops everything, and fails the test if anything is left.
func (w *world) end(dir string) {
	if w.Failed() {
		w.explain()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := w.command(ctx, "down", "--delete").CombinedOutput(); err != nil {
		w.Errorf("capstan down: %v\n%s", err, out)
	}
	for _, m := range w.machines {
		if err := m.Remove(); err != nil {
			w.Error(err)
		}
	}
	for _, left := range leftovers.Of(w.home) {
		w.Errorf("left behind: %s", left)
	}
	if err := os.RemoveAll(dir); err != nil {
		w.Error(err)
	}
}
