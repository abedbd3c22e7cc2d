package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/machine"
)

// emulated is the factor by which everything may take longer where a program emulates the processor.
const emulated = 6

// lonely is a pod that runs on the control plane, because there is no other Node.
const lonely = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
  - name: web
    image: ` + podImage + `
    args: [serve, /data]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 2, timeoutSeconds: 10}
    resources: {limits: {memory: 64Mi, cpu: 500m}}
    securityContext: {runAsUser: 0}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, hostPath: {path: /mnt/data, type: DirectoryOrCreate}}]
`

// TestVirtual creates a cluster of one virtual machine, which has its own kernel with only cgroups of version 2.
func TestVirtual(t *testing.T) {
	if os.Getenv(machine.WantedVirtual) == "" || os.Getenv(BundleVariable) == "" {
		t.Skip("starts a virtual machine, and gives it a bundle: make test-vm")
	}
	root, err := machine.VirtualRoot()
	if err != nil {
		t.Fatal(err)
	}
	w, dir := newPlace(t)
	w.slowness = emulated
	m, err := machine.StartVirtual(t.Context(), w.lan, root, dir, "rack1-01", "192.0.2.11")
	if err != nil {
		t.Fatal(err)
	}
	w.machines = append(w.machines, m)
	w.step("machine booted: " + strings.TrimSpace(w.on(m, "uname -r")))
	w.asWritten(dir, "--workers", "0", "--timeout", w.patience().String())
	w.until("all pods of the system run", func() (bool, string) {
		text := w.kubectl("get", "pods", "-A", "--no-headers")
		return !strings.Contains(text, "0/1") && strings.Contains(text, "coredns"), text
	})
	w.step("CoreDNS Ready")
	w.lonely(dir)
	w.returned()
}

// lonely runs a pod, and checks that its limits hold.
func (w *world) lonely(dir string) {
	w.Helper()
	w.images(dir)
	manifest := filepath.Join(dir, "workload.yaml")
	if err := os.WriteFile(manifest, []byte(lonely), 0o600); err != nil {
		w.Fatal(err)
	}
	w.kubectl("apply", "-f", manifest)
	w.kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout", w.patience().String())
	w.step("a pod runs")
	if text := w.kubectl("logs", "web"); !strings.Contains(text, "web serves, start 1") {
		w.Fatalf("the pod's log does not show its first start: %q", text)
	}
	want := w.kubectl("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	got := w.kubectl("exec", "web", "--", "/pod", "lookup", "kubernetes.default")
	if strings.TrimSpace(got) != want {
		w.Fatalf("CoreDNS says that the API server's Service is at %q, want %q", got, want)
	}
	w.step("logs, exec, and CoreDNS answers")
	const limits = "cd /sys/fs/cgroup/kubepods.slice && " +
		"find . -name 'cri-containerd-*' -exec sh -c 'echo $(cat {}/memory.max {}/cpu.max)' ';'"
	if text := w.on(w.machines[0], limits); !strings.Contains(text, "67108864 50000 100000\n") {
		w.Fatalf("no container has the pod's limits:\n%s", text)
	}
	w.step("limits are those of cgroups of version 2")
}
