//go:build linux

package kube_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is a network namespace with a bridge that connects hosts. It is not visible outside.
type world struct {
	t       *testing.T
	bundles string
	version string // the Kubernetes release whose bundle the hosts run
	pid     int    // the id of the process that holds the namespaces
}

// host is one host, with its own namespaces and root directory.
type host struct {
	w       *world
	name    string
	root    string
	address string
	pid     int       // the id of the host's PID 1 in the test's PID namespace
	unshare *exec.Cmd // the parent of the host's PID 1
}

const (
	gateway   = "10.99.0.1"
	hostLimit = 20 * time.Second
	nodeLimit = 120 * time.Second

	workerMemory    = 70 // MiB
	workerProcessor = 5  // percent of one processor
)

// newWorld creates the namespaces, with a user namespace if the test doesn't run as root.
func newWorld(t *testing.T, bundles, version string) *world {
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
	w := &world{t: t, bundles: bundles, version: version}
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

// startChild starts a process that is killed when the test ends or the test's process dies.
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

// host creates and starts a host; its address is derived from number.
func (w *world) host(name string, number int) *host {
	w.t.Helper()
	h := &host{w: w, name: name, root: w.t.TempDir(), address: fmt.Sprintf("10.99.0.%d", number)}
	w.t.Cleanup(func() { h.keepLogs() })
	h.boot()
	return h
}

// boot starts a host.
func (h *host) boot() {
	h.w.t.Helper()
	scripts, err := filepath.Abs("testdata")
	if err != nil {
		h.w.t.Fatal(err)
	}
	os.Remove(filepath.Join(h.root, "run", "containerd", "containerd.sock")) // left by the previous run
	line := enter(h.w.pid, "--net --mount", "unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork",
		"--kill-child",
		"/bin/sh", filepath.Join(scripts, "host.sh"), h.root, h.name, h.address, gateway, h.w.bundles,
		h.w.version)
	h.unshare = exec.Command(line[0], line[1:]...)
	unshare := h.w.startChild(h.unshare)
	waitFor(h.w.t, hostLimit, "PID 1 of "+h.name, func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
		if err != nil {
			return err
		}
		h.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		return err
	})
	port := "v" + h.name
	h.w.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", h.mac(), "netns",
		strconv.Itoa(h.pid))
	h.w.run("ip", "link", "set", port, "master", "br0", "up")
	waitFor(h.w.t, hostLimit, h.name+" to be up", func() error {
		_, err := os.Stat(filepath.Join(h.root, "run", "containerd", "containerd.sock"))
		return err
	})
}

// mac returns the host's MAC address. It is derived from the IP address, so that neighbor tables stay correct after a
// reboot.
func (h *host) mac() string {
	number, _ := strconv.Atoi(h.address[strings.LastIndexByte(h.address, '.')+1:])
	return fmt.Sprintf("02:63:00:00:00:%02x", number)
}

// reboot kills a host, as a power failure does, and starts it again.
func (h *host) reboot() {
	h.w.t.Helper()
	h.unshare.Process.Kill() // kills PID 1 and therefore all processes of the host
	waitFor(h.w.t, hostLimit, "the end of "+h.name, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", h.pid)); err == nil {
			return errors.New("PID 1 is still there")
		}
		return nil
	})
	// Remove the cable (a veth pair) at its end in the world: the host's network namespace, which has the other end,
	// may live a little longer.
	line := enter(h.w.pid, "--net --mount", "ip", "link", "del", "v"+h.name)
	exec.Command(line[0], line[1:]...).Run()
	h.boot()
}

// command prepares a command on the host.
func (h *host) command(ctx context.Context, args ...string) *exec.Cmd {
	line := enter(h.pid, "--net --mount --uts --pid --ipc --root --wd", args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"KUBECONFIG=/etc/kubernetes/admin.conf"}
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
		return out.String(), fmt.Errorf("%s: %s: %w\n%s%s", h.name, strings.Join(args, " "), err, out.String(),
			errOut.String())
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

// kubeadm runs kubeadm and logs when each phase began.
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
	var output strings.Builder
	last := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		output.WriteString(lines.Text() + "\n")
		phase, _, ok := strings.Cut(lines.Text(), "]")
		if ok && strings.HasPrefix(phase, "[") && phase != last {
			t.Logf("    %6.2f s  %s", time.Since(begin).Seconds(), lines.Text())
			last = phase
		}
	}
	r.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("kubeadm %s: %v\n%s", strings.Join(args, " "), err, output.String())
	}
	t.Logf("    %6.2f s  kubeadm %s is done", time.Since(begin).Seconds(), args[0])
}

// keepLogs copies the logs of a host to CAPSTAN_TEST_LOGS, if that is set.
func (h *host) keepLogs() {
	if dir := os.Getenv("CAPSTAN_TEST_LOGS"); dir != "" {
		if err := os.CopyFS(filepath.Join(dir, h.name), os.DirFS(filepath.Join(h.root, "var", "log"))); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			h.w.t.Logf("keeping logs: %v", err)
		}
	}
}

// waitFor waits until check returns no error.
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

func defaultVersion(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("DEFAULT_VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// bundle returns a directory of bundles, and the Kubernetes release to test: the default one, or the one in
// CAPSTAN_TEST_VERSION. CAPSTAN_BUNDLES is the directory. Without this variable, it is bin/bundles, where bundle builds
// the release's bundle.
func bundle(t *testing.T) (dir, version string) {
	t.Helper()
	version = cmp.Or(os.Getenv("CAPSTAN_TEST_VERSION"), defaultVersion(t))
	if dir = os.Getenv("CAPSTAN_BUNDLES"); dir != "" {
		return dir, version
	}
	dir, err := filepath.Abs("../bin/bundles")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("./build", version, dir).CombinedOutput(); err != nil {
		t.Fatalf("building the bundle: %v: %s", err, out)
	}
	return dir, version
}

// processes returns the names of the host's processes by process id in the test's namespace.
func (h *host) processes() map[int]string {
	h.w.t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.pid))
	if err != nil {
		h.w.t.Fatal(err)
	}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		h.w.t.Fatal(err)
	}
	names := map[int]string{}
	for _, entry := range entries {
		if ns, err := os.Readlink(entry + "/ns/pid"); err != nil || ns != own {
			continue
		}
		line, _ := os.ReadFile(entry + "/cmdline") // empty when it has ended
		name, _, _ := strings.Cut(string(line), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(entry)); err == nil && name != "" {
			names[pid] = filepath.Base(name)
		}
	}
	return names
}

// process returns the id of the host's only process with a name, or 0. A child of that process that has not executed
// its own program yet has the same name, and does not count.
func (h *host) process(name string) int {
	h.w.t.Helper()
	var found []int
	for pid, other := range h.processes() {
		if other == name {
			found = append(found, pid)
		}
	}
	all := slices.Clone(found)
	found = slices.DeleteFunc(found, func(pid int) bool { return slices.Contains(all, parent(pid)) })
	if len(found) > 1 {
		h.w.t.Fatalf("%s runs more than once on %s: processes %v", name, h.name, found)
	}
	if len(found) == 0 {
		return 0
	}
	return found[0]
}

// parent returns the id of a process's parent, or 0 if the process has ended.
func parent(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "PPid:"); is {
			id, _ := strconv.Atoi(strings.TrimSpace(value))
			return id
		}
	}
	return 0
}

// kill kills a process of the host and waits until its id is gone.
func (h *host) kill(t *testing.T, name string) {
	t.Helper()
	pid := h.process(name)
	if pid == 0 {
		t.Fatalf("%s does not run on %s, but these do: %v", name, h.name, h.processes())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, hostLimit, "the end of "+name, func() error {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(line) > 0 {
			return errors.New("it is still there")
		}
		return nil
	})
}

// memory returns the proportional set size, in MiB, of the host's processes by name.
func (h *host) memory() map[string]float64 {
	h.w.t.Helper()
	sizes := map[string]float64{}
	for pid, name := range h.processes() {
		rollup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // empty when it has ended
		for l := range strings.Lines(string(rollup)) {
			if f := strings.Fields(l); len(f) == 3 && f[0] == "Pss:" {
				kib, _ := strconv.Atoi(f[1])
				sizes[name] += float64(kib) / 1024
			}
		}
	}
	return sizes
}

// processorTime returns the processor time used so far by the host's processes, by name.
func (h *host) processorTime() map[string]time.Duration {
	h.w.t.Helper()
	times := map[string]time.Duration{}
	for pid, name := range h.processes() {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty when it has ended
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 13 {
			continue
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		times[name] += time.Duration(user+system) * 10 * time.Millisecond
	}
	return times
}

// write writes a file on the host.
func (h *host) write(path, content string) {
	h.w.t.Helper()
	if err := os.WriteFile(filepath.Join(h.root, path), []byte(content), 0o600); err != nil {
		h.w.t.Fatal(err)
	}
}
