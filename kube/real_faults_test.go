//go:build linux

package kube_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// faultyConfig makes the kubelet keep at most two dead containers, and three log files of 1 MiB for each container.
const faultyConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  taints: []
  kubeletExtraArgs: [{name: maximum-dead-containers, value: "2"}]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking: {podSubnet: 10.244.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
containerLogMonitorInterval: 3s
`

// faulty has pods that exit, and one that prints endlessly.
const faulty = `
apiVersion: batch/v1
kind: Job
metadata: {name: ends}
spec:
  completions: 6
  parallelism: 6
  template:
    metadata: {labels: {app: ends}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/pod:1", args: [say=ended]}]
---
apiVersion: v1
kind: Pod
metadata: {name: flood}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: main
    image: registry.example/pod:1
    args: [flood=/data/written]
    volumeMounts: [{name: data, mountPath: /data}]
`

// crashes is a pod that exits again and again.
const crashes = `
apiVersion: v1
kind: Pod
metadata: {name: crashes}
spec:
  containers: [{name: main, image: "registry.example/pod:1", args: [say=crashing, exit=x]}]
`

// TestFaultsOfPods strains a Node with clients that do not read a pod's output, and with many containers that exit.
func TestFaultsOfPods(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a whole node")
	}
	bundles, version := bundle(t)
	h := newWorld(t, bundles, version).host("node", 11)
	serveImages(t, h)
	step := steps(t)
	h.write("/etc/init.yaml", fmt.Sprintf(faultyConfig, version))
	h.kubeadm("init", "--config", "/etc/init.yaml", "--skip-phases=addon")
	waitFor(t, nodeLimit, "the Node", func() error { return nodeReady(h, "node") })
	waitFor(t, nodeLimit, "the service account", func() error {
		_, err := h.try("kubectl", "get", "serviceaccount", "default")
		return err
	})
	h.write("/etc/faulty.yaml", faulty)
	h.must("kubectl", "apply", "-f", "/etc/faulty.yaml")
	h.must("kubectl", "wait", "--for=condition=Complete", "job/ends", "--timeout=60s")
	step("pods have ended")
	t.Run("clients that do not read", func(t *testing.T) { deafClients(t, h) })
	step("clients that did not read are gone")
	t.Run("containers that have ended", func(t *testing.T) { deadContainers(t, h) })
	step("dead containers are gone")
}

// deafClients starts clients that follow the log of a pod or attach to it, but never read. Neither the pod nor the Node
// waits for them, and the output that they do not read takes a bounded amount of memory and disk.
func deafClients(t *testing.T, h *host) {
	const clients, memory, disk, mebibytes = 6, 48, 256, 100
	waitFor(t, podLimit, "output", func() error { return flooded(h, 1) })
	before, files := h.memory(), h.files()
	var leave []func()
	for i := range clients {
		line := []string{"kubectl", "logs", "--follow", "flood"}
		if i%2 == 1 {
			line = []string{"kubectl", "attach", "flood"}
		}
		leave = append(leave, h.deaf(t, line...))
	}
	waitFor(t, podLimit, "the clients", func() error {
		if n := len(named(h, "kubectl")); n != clients {
			return fmt.Errorf("%d clients run, want %d", n, clients)
		}
		return nil
	})
	written, err := h.flood()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, podLimit, "the pod to print more", func() error { return flooded(h, written+mebibytes) })
	h.must("kubectl", "run", "beside", "--image="+podImage, "--restart=Never", "--", "say=beside")
	waitFor(t, podLimit, "another pod", func() error { return is(h, "beside", "{.status.phase}", "Succeeded") })
	h.must("kubectl", "delete", "pod", "beside", "--timeout=60s")
	if out, err := h.try("kubectl", "exec", "flood", "--", "/pod", "say=alive"); err != nil || out != "alive\n" {
		t.Errorf("a command in the pod answers %q, %v", out, err)
	}
	if out, err := h.try("kubectl", "logs", "--tail=1", "flood"); err != nil || !strings.HasPrefix(out, "xxx") {
		t.Errorf("another reader gets %q, %v", out, err)
	}
	after := h.memory()
	for _, name := range []string{"cri", "kubelet", "capstan-run", "kube-apiserver"} {
		t.Logf("%s: %.1f MiB, was %.1f", name, after[name], before[name])
		if after[name] > before[name]+memory {
			t.Errorf("%s takes %.1f MiB more", name, after[name]-before[name])
		}
	}
	if size := h.size(t, "var/log/pods"); size > disk<<20 {
		t.Errorf("the logs take %d MiB, want at most %d", size>>20, disk)
	} else {
		t.Logf("the logs take %d MiB", size>>20)
	}
	for _, f := range leave {
		f()
	}
	waitFor(t, podLimit, "the kubelet to close the logs", func() error {
		if now := logsOf(h.files()["kubelet"]); len(now) > len(logsOf(files["kubelet"])) {
			return fmt.Errorf("the kubelet has %q open", now)
		}
		return nil
	})
	// After a client has stopped attaching, upstream's kubelet reads on until the container ends (client-go discards
	// the output), so these connections close only now.
	h.must("kubectl", "delete", "pod", "flood", "--timeout=60s")
	waitFor(t, podLimit, "the files of former clients to be closed", func() error {
		for name, now := range h.files() {
			if len(now) > len(files[name])+2 { // the kubelet opens some files for its own work
				return fmt.Errorf("%s has %q open, had %q", name, now, files[name])
			}
		}
		return nil
	})
}

// logsOf returns the open files that follow a pod's log: the log, and the watch of its directory.
func logsOf(files []string) (logs []string) {
	for _, file := range files {
		if strings.Contains(file, "/var/log/pods/") || strings.HasSuffix(file, ":inotify") {
			logs = append(logs, file)
		}
	}
	return logs
}

// deadContainers checks what is left of containers that have exited. A pod that crashes keeps only the last crashed
// container, and the Node keeps as many dead containers as the kubelet's setting allows.
func deadContainers(t *testing.T, h *host) {
	h.write("/etc/crashes.yaml", crashes)
	h.must("kubectl", "apply", "-f", "/etc/crashes.yaml")
	waitFor(t, nodeLimit, "the pod to crash five times", func() error {
		out, err := h.try("kubectl", "get", "pod", "crashes", "-o", "jsonpath="+inPod("main", "restartCount"))
		if n, _ := strconv.Atoi(out); err == nil && n < 5 {
			err = fmt.Errorf("it was restarted %s times", out)
		}
		return err
	})
	logs := func(pod string) ([]string, error) {
		return filepath.Glob(filepath.Join(h.root, "var/log/pods/default_"+pod+"*", "*", "*"))
	}
	waitFor(t, podLimit, "removal of the crashing pod's old containers", func() error {
		found, err := logs("crashes")
		if err == nil && len(found) > 2 {
			err = fmt.Errorf("the pod has the logs %v, want two", found)
		}
		return err
	})
	// After a crash, the kubelet removes the container of the previous crash, but reports the latest crash only a
	// moment later.
	waitFor(t, podLimit, "the log of the last crash", func() error {
		out, err := h.try("kubectl", "logs", "--previous", "crashes")
		if err == nil && out != "crashing\n" {
			err = fmt.Errorf("the log is %q", out)
		}
		return err
	})
	h.must("kubectl", "delete", "pod", "crashes", "--timeout=60s")
	// The kubelet collects dead containers once a minute. Of six pods that have exited, two keep their containers.
	const most = 2
	waitFor(t, 3*time.Minute, "dead containers to be removed", func() error {
		found, err := logs("ends")
		if err != nil {
			return err
		}
		running := 0
		records, _ := filepath.Glob(filepath.Join(h.root, "var/lib/capstan/cri/containers/*"))
		for _, record := range records {
			if _, err := os.Stat(filepath.Join(record, "exit.json")); err != nil {
				running++
			}
		}
		if len(found) > most || len(records)-running > most {
			return fmt.Errorf("%d logs and %d containers that have ended, want %d", len(found), len(records)-running, most)
		}
		return nil
	})
	if n := strings.Count(h.must("kubectl", "get", "pods", "-l", "app=ends", "--no-headers"), "Completed"); n != 6 {
		t.Errorf("%d pods are listed as completed, want 6: pods were removed with their dead containers", n)
	}
	mounts := h.must("cat", "/proc/1/mountinfo")
	if strings.Contains(mounts, " - overlay ") {
		t.Errorf("overlays are left:\n%s", mounts)
	}
}

// flood returns how many MB the pod that prints endlessly has printed so far.
func (h *host) flood() (int, error) {
	found, err := filepath.Glob(filepath.Join(h.root, "var/lib/kubelet/pods/*/volumes/*/data/written"))
	if err != nil || len(found) != 1 {
		return 0, fmt.Errorf("files %v, %w", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// flooded returns an error until the pod that prints endlessly has printed want MB.
func flooded(h *host, want int) error {
	n, err := h.flood()
	if err == nil && n < want {
		err = fmt.Errorf("the pod has printed %d MB, want %d", n, want)
	}
	return err
}

// deaf starts a command whose output nobody reads. leave closes the output and waits for the command to exit.
func (h *host) deaf(t *testing.T, args ...string) (leave func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(t.Context(), args...)
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		t.Fatal(err)
	}
	return func() {
		r.Close()
		cmd.Wait() // the command fails, because it can't write
	}
}

// files returns the names of the files that the kubelet and the CRI server have open, sorted.
func (h *host) files() map[string][]string {
	names := map[string][]string{}
	for pid, name := range h.processes() {
		if name != "kubelet" && name != "cri" {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		open, _ := os.ReadDir(dir) // empty when it has ended
		for _, entry := range open {
			file, _ := os.Readlink(filepath.Join(dir, entry.Name())) // empty when the file is closed
			names[name] = append(names[name], file)
		}
		slices.Sort(names[name])
	}
	return names
}

// size returns the bytes of the files below a directory of the host.
func (h *host) size(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(filepath.Join(h.root, dir)), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was rotated meanwhile
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
