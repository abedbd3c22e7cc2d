//go:build linux

// Package kube_test runs real nodes: two hosts made of namespaces, kubeadm init on one and join on the other.
package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is a network namespace with a bridge, to which hosts are connected. Nothing outside of it sees any of it.
type world struct {
	t       *testing.T
	bundles string
	pid     int // of the process that holds the namespaces
}

// host is one host: namespaces and a root directory of its own.
type host struct {
	w       *world
	name    string
	root    string
	address string
	pid     int // its PID 1, as the test counts
}

const (
	gateway   = "10.99.0.1"
	hostLimit = 20 * time.Second
	nodeLimit = 120 * time.Second

	workerMemory = 70 // MiB
)

// newWorld makes the namespaces, with a user namespace if the test doesn't run as root.
func newWorld(t *testing.T, bundles string) *world {
	t.Helper()
	for _, tool := range []string{"ip", "unshare", "nsenter", "pivot_root"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed: install iproute2 and util-linux", tool)
		}
	}
	args := []string{"--net", "--mount"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(args, "true")...).CombinedOutput(); err != nil {
		t.Skipf("the kernel forbids namespaces here: unshare %s: %v: %s", strings.Join(args, " "), err, out)
	}
	cmd := exec.Command("unshare", append(args, "sleep", "infinity")...)
	w := &world{t: t, bundles: bundles}
	w.pid = w.startChild(cmd)
	waitFor(t, hostLimit, "the namespaces", func() error {
		own, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			return err
		}
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", w.pid))
		if err != nil || theirs == own {
			return fmt.Errorf("not yet: %v", err)
		}
		return nil
	})
	for _, line := range []string{
		"ip link set lo up",
		"ip link add br0 type bridge forward_delay 0",
		"ip addr add " + gateway + "/24 dev br0",
		"ip link set br0 up",
	} {
		w.run(strings.Fields(line)...)
	}
	return w
}

// startChild starts a process that ends with the test, and with the test's process.
func (w *world) startChild(cmd *exec.Cmd) int {
	w.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if w.t.Failed() && out.Len() > 0 {
			w.t.Logf("%s printed:\n%s", strings.Join(cmd.Args, " "), out.String())
		}
	})
	return cmd.Process.Pid
}

// enter returns the command line that runs args in the namespaces of process pid.
func enter(pid int, flags string, args ...string) []string {
	line := []string{"nsenter", "-t", strconv.Itoa(pid)}
	if os.Getuid() != 0 {
		line = append(line, "--user", "--preserve-credentials")
	}
	return append(append(line, strings.Fields(flags)...), args...)
}

// run runs a command in the world.
func (w *world) run(args ...string) {
	w.t.Helper()
	line := enter(w.pid, "--net --mount", args...)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// host starts a host; number makes its address.
func (w *world) host(name string, number int) *host {
	w.t.Helper()
	scripts, err := filepath.Abs("testdata")
	if err != nil {
		w.t.Fatal(err)
	}
	h := &host{w: w, name: name, root: w.t.TempDir(), address: fmt.Sprintf("10.99.0.%d", number)}
	line := enter(w.pid, "--net --mount", "unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--kill-child",
		"/bin/sh", filepath.Join(scripts, "host.sh"), h.root, name, h.address, gateway, w.bundles)
	unshare := w.startChild(exec.Command(line[0], line[1:]...))
	w.t.Cleanup(func() { h.keepLogs() })
	waitFor(w.t, hostLimit, "PID 1 of "+name, func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
		if err != nil {
			return err
		}
		h.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		return err
	})
	port := "v" + name
	w.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(h.pid))
	w.run("ip", "link", "set", port, "master", "br0", "up")
	waitFor(w.t, hostLimit, name+" to be up", func() error {
		_, err := os.Stat(filepath.Join(h.root, "run", "containerd", "containerd.sock"))
		return err
	})
	return h
}

// command prepares a command on the host.
func (h *host) command(ctx context.Context, args ...string) *exec.Cmd {
	line := enter(h.pid, "--net --mount --uts --pid --ipc --root --wd", args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "KUBECONFIG=/etc/kubernetes/admin.conf"}
	return cmd
}

// try runs a command on the host and returns its standard output.
func (h *host) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeLimit)
	defer cancel()
	cmd := h.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %s: %w\n%s%s", h.name, strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String(), nil
}

// must runs a command on the host and fails the test when it fails.
func (h *host) must(args ...string) string {
	h.w.t.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return out
}

// kubeadm runs kubeadm, and logs when it was at which line of its output.
func (h *host) kubeadm(args ...string) {
	t := h.w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeLimit)
	defer cancel()
	cmd := h.command(ctx, append([]string{"kubeadm"}, args...)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	begin := time.Now()
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		t.Logf("    %6.2f s  %s", time.Since(begin).Seconds(), lines.Text())
	}
	r.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("kubeadm %s: %v", strings.Join(args, " "), err)
	}
}

// keepLogs copies the logs of a host to CAPSTAN_TEST_LOGS, if that is set.
func (h *host) keepLogs() {
	if dir := os.Getenv("CAPSTAN_TEST_LOGS"); dir != "" {
		if err := os.CopyFS(filepath.Join(dir, h.name), os.DirFS(filepath.Join(h.root, "var", "log"))); err != nil && !errors.Is(err, fs.ErrExist) {
			h.w.t.Logf("keeping logs: %v", err)
		}
	}
}

// waitFor waits until check has no error.
func waitFor(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s (%s): %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// nodeReady returns an error while a Node is not Ready.
func nodeReady(h *host, name string) error {
	out, err := h.try("kubectl", "get", "node", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	if err != nil {
		return err
	}
	if out != "True" {
		return fmt.Errorf("node %s is not Ready: %q", name, out)
	}
	return nil
}

// podsReady returns an error while any pod of a selection is not Ready, or there are less than n.
func podsReady(h *host, n int, args ...string) error {
	out, err := h.try(append([]string{"kubectl", "get", "pods", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	for _, pod := range list.Items {
		ready := false
		for _, c := range pod.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		if !ready {
			return fmt.Errorf("pod %s is not Ready", pod.Metadata.Name)
		}
	}
	if len(list.Items) < n {
		return fmt.Errorf("there are %d pods, want %d", len(list.Items), n)
	}
	return nil
}

// bundle builds the bundle under test and returns the directory of bundles. CAPSTAN_BUNDLES names one that is built already.
func bundle(t *testing.T) (dir, version string) {
	t.Helper()
	data, err := os.ReadFile("DEFAULT_VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version = strings.TrimSpace(string(data))
	if dir = os.Getenv("CAPSTAN_BUNDLES"); dir != "" {
		return dir, version
	}
	dir = t.TempDir()
	if out, err := exec.Command("./build", version, dir).CombinedOutput(); err != nil {
		t.Fatalf("building the bundle: %v: %s", err, out)
	}
	return dir, version
}

// initConfig is kubeadm's configuration, with the settings that make a controller manager act soon: it waits for its turn by default.
const initConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking:
  podSubnet: 10.244.0.0/16
controllerManager:
  extraArgs:
  - {name: kube-api-qps, value: "200"}
  - {name: kube-api-burst, value: "400"}
  - {name: leader-elect-retry-period, value: 500ms}
  - {name: leader-elect-renew-deadline, value: 3s}
  - {name: leader-elect-lease-duration, value: 4s}
`

// memory returns the proportional set size, in MiB, of the processes of a host by name.
func (h *host) memory() map[string]float64 {
	h.w.t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.pid))
	if err != nil {
		h.w.t.Fatal(err)
	}
	sizes := map[string]float64{}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, entry := range entries {
		if ns, err := os.Readlink(entry + "/ns/pid"); err != nil || ns != own {
			continue
		}
		line, _ := os.ReadFile(entry + "/cmdline")
		name, _, _ := strings.Cut(string(line), "\x00")
		rollup, _ := os.ReadFile(entry + "/smaps_rollup") // empty when it has ended
		for l := range strings.Lines(string(rollup)) {
			if f := strings.Fields(l); len(f) == 3 && f[0] == "Pss:" {
				kib, _ := strconv.Atoi(f[1])
				sizes[filepath.Base(name)] += float64(kib) / 1024
			}
		}
	}
	return sizes
}

// write writes a file on the host.
func (h *host) write(path, content string) {
	h.w.t.Helper()
	if err := os.WriteFile(filepath.Join(h.root, path), []byte(content), 0o600); err != nil {
		h.w.t.Fatal(err)
	}
}

// TestNodes makes a cluster of two nodes with kubeadm as it is, and looks at it from all sides.
func TestNodes(t *testing.T) {
	bundles, version := bundle(t)
	w := newWorld(t, bundles)
	begin := time.Now()
	step := func(what string) {
		t.Logf("%6.2f s  %s", time.Since(begin).Seconds(), what)
	}
	first := w.host("first", 11)
	step("first host is up")
	first.write("/root/init.yaml", fmt.Sprintf(initConfig, version))
	first.kubeadm("init", "--config", "/root/init.yaml")
	step("kubeadm init is done")
	waitFor(t, nodeLimit, "the first node", func() error { return nodeReady(first, "first") })
	step("first node is Ready")

	second := w.host("second", 12)
	step("second host is up")
	second.kubeadm("join", first.address+":6443", "--token", "abcdef.0123456789abcdef", "--discovery-token-unsafe-skip-ca-verification")
	step("kubeadm join is done")
	waitFor(t, nodeLimit, "the second node", func() error { return nodeReady(first, "second") })
	step("second node is Ready")
	waitFor(t, nodeLimit, "all pods of kube-system", func() error { return podsReady(first, 8, "-n", "kube-system") })
	step("all pods of kube-system are Ready")

	for _, h := range []*host{first, second} {
		t.Logf("memory of %s in MiB: %.0f", h.name, h.memory())
	}
	if m := second.memory(); m["kubelet"]+m["cri"] > workerMemory {
		t.Errorf("kubelet and CRI server of a worker take %.0f MiB, want at most %d", m["kubelet"]+m["cri"], workerMemory)
	}
}
