//go:build linux

// Package kube_test runs unmodified kubeadm on hosts made of namespaces, and checks all aspects of the cluster.
package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// podsReady returns an error while a selected pod is not Ready, or fewer than n exist.
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

// initConfig is kubeadm's configuration for hollow pods. Its settings make a controller manager act soon, instead of
// waiting for its leader election.
const initConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
nodeRegistration: {criSocket: "unix:///run/capstan/hollow.sock"}
certificateKey: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
controlPlaneEndpoint: 10.99.0.11:6443
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

const (
	token      = "abcdef.0123456789abcdef"
	key        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	withoutCA  = "--discovery-token-unsafe-skip-ca-verification"
	hollow     = "--cri-socket=unix:///run/capstan/hollow.sock"
	systemPods = 8 // of a cluster with one control plane and one worker
)

// steps logs when each step was done.
func steps(t *testing.T) func(what string) {
	begin := time.Now()
	return func(what string) {
		t.Helper()
		t.Logf("%6.2f s  %s", time.Since(begin).Seconds(), what)
	}
}

// initialize runs kubeadm init on a host and waits for its Node.
func initialize(t *testing.T, h *host, version string, args ...string) {
	t.Helper()
	h.write("/root/init.yaml", fmt.Sprintf(initConfig, version))
	h.kubeadm(append([]string{"init", "--config", "/root/init.yaml"}, args...)...)
	waitFor(t, nodeLimit, "node "+h.name, func() error { return nodeReady(h, h.name) })
}

// join runs kubeadm join on a host and waits for its Node.
func join(t *testing.T, h, first *host, args ...string) {
	t.Helper()
	h.kubeadm(append([]string{"join", first.address + ":6443", "--token", token, withoutCA}, args...)...)
	waitFor(t, nodeLimit, "node "+h.name, func() error { return nodeReady(first, h.name) })
}

// contents is what a bundle says about itself.
type contents struct {
	Kubernetes, Etcd string
	CoreDNS          string `json:"coredns-tag"`
	Applets          []string
}

func contentsOf(t *testing.T, bundles, version string) (c contents) {
	t.Helper()
	out, err := exec.Command(filepath.Join(bundles, version, "capstan-kube"), "versions").Output()
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBundle calls the binary by its own name and by the names of applets.
func TestBundle(t *testing.T) {
	bundles, version := bundle(t)
	binary := filepath.Join(bundles, version, "capstan-kube")
	versions := contentsOf(t, bundles, version)
	if versions.Kubernetes != version || !strings.HasPrefix(versions.Etcd, "3.") ||
		!strings.HasPrefix(versions.CoreDNS, "v1.") {
		t.Errorf("versions are %+v, want those of Kubernetes %s", versions, version)
	}
	for _, name := range []string{"coredns", "cri", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kubeadm", "kubectl", "kubelet"} {
		if !slices.Contains(versions.Applets, name) {
			t.Errorf("there is no applet %s", name)
		}
	}
	cases := map[string]struct {
		name string // the name by which the binary is called
		args []string
		want string
		code int
	}{
		"called by the name of an applet":    {"kubeadm", []string{"version", "-o", "short"}, version, 0},
		"the applet as the first argument":   {"capstan-kube", []string{"kubeadm", "version", "-o", "short"}, version, 0},
		"called by a name that is no applet": {"other", []string{"kubelet", "--version"}, "Kubernetes " + version, 0},
		"a component has the version":        {"kube-apiserver", []string{"--version"}, "Kubernetes " + version, 0},
		"kubectl has the version":            {"kubectl", []string{"version", "--client"}, "Client Version: " + version, 0},
		"CoreDNS has the version that kubeadm installs": {
			"coredns", []string{"-version"}, "CoreDNS-" + strings.TrimPrefix(versions.CoreDNS, "v") + "\n", 0,
		},
		"other applets lack CoreDNS's flags": {"kubeadm", []string{"version", "--pidfile", "x"},
			"unknown flag: --pidfile", 1},
		"an unknown applet": {"capstan-kube", []string{"kube-dns"},
			"call it as one of: coredns, cp, cri, etcd", 2},
		"no applet": {"capstan-kube", nil, "call it as one of: coredns, cp, cri, etcd", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(binary, c.args...)
			cmd.Args[0] = c.name
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("the command printed %q (%v), want %q and exit code %d", out, err, c.want, c.code)
			}
		})
	}
}

// TestNodes creates a cluster of two hollow nodes with unmodified kubeadm, and checks all aspects of it.
func TestNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes whole nodes")
	}
	bundles, version := bundle(t)
	w := newWorld(t, bundles, version)
	step := steps(t)
	first := w.host("first", 11)
	initialize(t, first, version)
	step("first node is Ready")
	second := w.host("second", 12)
	join(t, second, first, hollow)
	step("second node is Ready")
	waitFor(t, nodeLimit, "all pods of kube-system",
		func() error { return podsReady(first, systemPods, "-n", "kube-system") })
	step("all pods of kube-system are Ready")

	t.Run("a worker is small", func(t *testing.T) {
		for _, h := range []*host{first, second} {
			for name, size := range h.memory() {
				t.Logf("%-8s %-24s %4.0f MiB", h.name, name, size)
			}
		}
		if m := second.memory(); m["kubelet"]+m["cri"] > workerMemory {
			t.Errorf("kubelet and CRI server take %.0f MiB, want at most %d", m["kubelet"]+m["cri"], workerMemory)
		}
	})
	t.Run("idle nodes use little processor time", func(t *testing.T) {
		const span = 10 * time.Second
		hosts := []*host{first, second}
		before := []map[string]time.Duration{first.processorTime(), second.processorTime()}
		time.Sleep(span) // this is the time span to measure
		for i, h := range hosts {
			for name, used := range h.processorTime() {
				t.Logf("%-8s %-24s %4.1f %% of a processor", h.name, name, 100*(used-before[i][name]).Seconds()/span.Seconds())
			}
		}
		now := second.processorTime()
		used := now["kubelet"] - before[1]["kubelet"] + now["cri"] - before[1]["cri"]
		if used > span*workerProcessor/100 {
			t.Errorf("kubelet and CRI server of a worker took %s in %s, want at most %d %%", used, span, workerProcessor)
		}
	})
	t.Run("nodes are labeled as hollow", func(t *testing.T) {
		if out := first.must("kubectl", "get", "nodes", "-l", "capstan.dev/hollow=true", "-o", "name"); strings.Count(out,
			"node/") != 2 {
			t.Errorf("nodes with the label: %q, want both", out)
		}
	})
	t.Run("logs, exec and port-forward reach a component", func(t *testing.T) { lookIntoEtcd(t, first) })
	t.Run("a hollow pod logs that it is hollow", func(t *testing.T) {
		out := first.must("kubectl", "logs", "-n", "kube-system", "daemonset/kube-proxy")
		if !strings.Contains(out, "This container is hollow") {
			t.Errorf("the hollow pod's log is %q", out)
		}
		if _, err := first.try("kubectl", "exec", "-n", "kube-system", "daemonset/kube-proxy", "--", "true"); err == nil ||
			!strings.Contains(err.Error(), "is hollow") {
			t.Errorf("exec: %v, want it refused because the container is hollow", err)
		}
	})
	t.Run("workloads come and go", func(t *testing.T) { runWorkloads(t, first, second) })
	t.Run("components outlive CRI server and kubelet", func(t *testing.T) {
		before := map[string]int{"etcd": first.process("etcd"), "kube-apiserver": first.process("kube-apiserver")}
		first.kill(t, "cri")
		first.kill(t, "kubelet")
		waitFor(t, nodeLimit, "CRI server and kubelet to run again", func() error {
			if first.process("cri") == 0 || first.process("kubelet") == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		waitFor(t, nodeLimit, "the log to be readable", func() error {
			_, err := first.try("kubectl", "logs", "-n", "kube-system", "etcd-first", "--tail=1")
			return err
		})
		for name, pid := range before {
			if now := first.process(name); now != pid {
				t.Errorf("%s is process %d, was %d", name, now, pid)
			}
		}
	})
	t.Run("killed components come back", func(t *testing.T) {
		for _, name := range []string{"kube-apiserver", "etcd"} {
			begin := time.Now()
			first.kill(t, name)
			waitFor(t, nodeLimit, "the API server", func() error {
				if first.process(name) == 0 {
					return errors.New("the killed component does not run")
				}
				_, err := first.try("kubectl", "get", "--raw", "/readyz")
				return err
			})
			t.Logf("%s was killed and the API server ready after %.1f s", name, time.Since(begin).Seconds())
		}
	})
	t.Run("hosts come back after a reboot", func(t *testing.T) {
		for _, h := range []*host{second, first} {
			begin := time.Now()
			boot := func() (string, error) {
				return first.try("kubectl", "get", "lease", "-n", "kube-node-lease", h.name, "-o", "jsonpath={.spec.renewTime}")
			}
			before, err := boot()
			if err != nil {
				t.Fatal(err)
			}
			h.reboot()
			waitFor(t, nodeLimit, h.name+" to be back", func() error {
				if now, err := boot(); err != nil || now == before {
					return fmt.Errorf("its lease is not renewed: %v", err)
				}
				if err := nodeReady(first, h.name); err != nil {
					return err
				}
				return podsReady(first, systemPods, "-n", "kube-system")
			})
			t.Logf("%s is back after %.1f s", h.name, time.Since(begin).Seconds())
		}
	})
}

// lookIntoEtcd reads etcd's log, executes a command in its container and talks to it through a forwarded port.
func lookIntoEtcd(t *testing.T, first *host) {
	if out := first.must("kubectl", "logs", "-n", "kube-system", "etcd-first"); !strings.Contains(out,
		"ready to serve client requests") {
		t.Errorf("etcd's log is %q", out)
	}
	if out := first.must("kubectl", "exec", "-n", "kube-system", "etcd-first", "--", "etcd",
		"--version"); !strings.Contains(out, "etcd Version: 3.") {
		t.Errorf("etcd --version prints %q", out)
	}
	out, err := first.try("kubectl", "exec", "-n", "kube-system", "etcd-first", "--", "sh", "-c", "exit 5")
	if err == nil || !strings.Contains(err.Error(), "exit code 5") {
		t.Errorf("a failing command: %q, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	forward := first.command(ctx, "kubectl", "port-forward", "-n", "kube-system", "pod/etcd-first", "18081:2381")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer forward.Wait()
	defer cancel()
	waitFor(t, nodeLimit, "etcd's health through a forwarded port", func() error {
		out, err := first.get("http://127.0.0.1:18081/health")
		if err == nil && !strings.Contains(out, `"health":"true"`) {
			err = fmt.Errorf("etcd says %q", out)
		}
		return err
	})
}

// workloads are a Job and a Deployment with many features that a hollow host does not support.
const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: true
      initContainers:
      - {name: prepare, image: registry.example/prepare:1}
      containers:
      - name: web
        image: registry.example/web:1
        readinessProbe: {httpGet: {path: /, port: 80}}
        livenessProbe: {exec: {command: ["false"]}}
        lifecycle: {preStop: {exec: {command: ["sleep", "30"]}}}
        securityContext: {runAsNonRoot: true, appArmorProfile: {type: RuntimeDefault}}
        volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: config, mountPath: /config.txt, subPath: root}
        - {name: modules, mountPath: /lib/modules}
      volumes:
      - {name: scratch, emptyDir: {medium: Memory}}
      - {name: config, configMap: {name: kube-root-ca.crt}}
      - {name: modules, hostPath: {path: /no/such/directory, type: Directory}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: job, image: registry.example/job:1}
`

// runWorkloads creates workloads, waits for them, deletes them and checks that they leave nothing on the host.
func runWorkloads(t *testing.T, first, worker *host) {
	before := leftovers(t, worker)
	first.write("/root/workloads.yaml", workloads)
	begin := time.Now()
	first.must("kubectl", "apply", "-f", "/root/workloads.yaml")
	first.must("kubectl", "wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
	first.must("kubectl", "wait", "--for=condition=Complete", "job/job", "--timeout=60s")
	t.Logf("workloads are up after %.1f s", time.Since(begin).Seconds())
	ips := strings.Fields(first.must("kubectl", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	cidr := first.must("kubectl", "get", "node", worker.name, "-o", "jsonpath={.spec.podCIDR}")
	seen := map[string]bool{}
	for _, ip := range ips {
		if !strings.HasPrefix(ip, strings.TrimSuffix(cidr, "0/24")) || seen[ip] {
			t.Errorf("pod addresses %v, want different ones of %s", ips, cidr)
		}
		seen[ip] = true
	}
	begin = time.Now()
	first.must("kubectl", "delete", "-f", "/root/workloads.yaml", "--timeout=60s")
	first.must("kubectl", "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")
	t.Logf("workloads are gone after %.1f s", time.Since(begin).Seconds())
	waitFor(t, nodeLimit, "nothing to be left on the host", func() error {
		if after := leftovers(t, worker); after != before {
			return fmt.Errorf("the host has %s, had %s", after, before)
		}
		return nil
	})
}

// leftovers counts what pods leave on a host.
func leftovers(t *testing.T, h *host) string {
	t.Helper()
	var counts []string
	for _, pattern := range []string{"var/lib/kubelet/pods/*", "var/lib/capstan/cri/sandboxes/*",
		"var/lib/capstan/cri/containers/*", "var/log/pods/*"} {
		found, err := filepath.Glob(filepath.Join(h.root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, fmt.Sprintf("%d of %s", len(found), pattern))
	}
	return strings.Join(counts, ", ")
}
