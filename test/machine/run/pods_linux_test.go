package run

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/image/build"
)

// podImage is the image of this test's pods; no registry has it.
const podImage = "pod.test/pod:1"

// workload has a server on each worker, which stores data on its host, a Service for these servers, and a pod from
// which the test sends requests.
const workload = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: ` + podImage + `
        args: [serve, /data]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
        livenessProbe: {httpGet: {port: 8080}}
        securityContext: {runAsUser: 0}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, hostPath: {path: /mnt/data, type: DirectoryOrCreate}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ask}
spec:
  selector: {matchLabels: {app: ask}}
  template:
    metadata: {labels: {app: ask}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: ask, image: "` + podImage + `", args: [wait]}]
`

// pods checks everything that a user expects of a cluster.
func (w *world) pods(dir string) {
	w.until("all pods of the system run", func() (bool, string) {
		text := w.kubectl("get", "pods", "-A", "--no-headers")
		return !strings.Contains(text, "0/1") && strings.Contains(text, "coredns"), text
	})
	w.step("CoreDNS Ready")
	w.images(dir)
	manifest := filepath.Join(dir, "workload.yaml")
	if err := os.WriteFile(manifest, []byte(workload), 0o600); err != nil {
		w.Fatal(err)
	}
	w.kubectl("apply", "-f", manifest)
	w.rolledOut()
	w.step("pods run")
	w.names()
	w.balanced()
	w.persistent()
	w.forwarded()
}

// images loads the image of pods on all machines.
func (w *world) images(dir string) {
	w.Helper()
	program, archive := filepath.Join(dir, "pod"), filepath.Join(dir, "pod.tar")
	cmd := exec.CommandContext(w.Context(), "go", "build", "-o", program, "./testdata/pod")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("building the program of the image: %v: %s", err, out)
	}
	file, err := os.Create(archive)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	if err := build.Build(build.Options{Name: podImage, Path: program}, file); err != nil {
		w.Fatal(err)
	}
	w.load(archive)
}

// rolledOut waits until the pods run, and returns the names of the servers.
func (w *world) rolledOut() []string {
	w.Helper()
	var pods []string
	w.until("there are two pods that serve", func() (bool, string) {
		pods = w.servers()
		return len(pods) == 2, strings.Join(pods, " ")
	})
	w.kubectl(append([]string{"wait", "pods", "--for=condition=Ready", "--timeout=120s"}, pods...)...)
	w.kubectl("rollout", "status", "deployment/ask", "--timeout=120s")
	return pods
}

// ask runs the program of the image in the client pod. It may have to try again, because DNS and Services take a moment
// to follow changes.
func (w *world) ask(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	cmd := w.command(ctx, append([]string{"kubectl", "--cluster", "rack", "exec", "deployment/ask", "--", "/pod"},
		args...)...)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String() + errOut.String(), err
	}
	return strings.TrimSpace(out.String()), nil
}

// names looks up names in CoreDNS.
func (w *world) names() {
	for name, service := range map[string]string{
		"web": "web", "web.default.svc.cluster.local": "web", "kubernetes.default": "kubernetes",
	} {
		want := w.kubectl("get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
		w.until("CoreDNS knows "+name, func() (bool, string) {
			got, err := w.ask("lookup", name)
			return err == nil && got == want, got
		})
	}
	w.step("CoreDNS answers")
}

// servers returns the names of the server pods, in order.
func (w *world) servers() []string {
	w.Helper()
	text := w.kubectl("get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o",
		"jsonpath={.items[*].metadata.name}")
	return slices.Sorted(slices.Values(strings.Fields(text)))
}

// balanced calls the Service until each worker's pod has answered.
func (w *world) balanced() {
	nodes := strings.Fields(w.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"))
	if slices.Sort(nodes); len(slices.Compact(nodes)) != 2 {
		w.Fatalf("the pods are on %q, want two machines", nodes)
	}
	answers := map[string]int{}
	w.until("both pods of the Service answer", func() (bool, string) {
		got, err := w.ask("get", "http://web/")
		name, _, _ := strings.Cut(got, " ")
		if err != nil {
			return false, got
		}
		answers[name]++
		for _, pod := range w.servers() {
			if answers[pod] == 0 {
				return false, pod + " has not answered; the last answer is: " + got
			}
		}
		return true, ""
	})
	w.Logf("answers of a Service over two machines: %v", answers)
	w.step("a Service balances")
}

// persistent replaces the pods, and checks that their data stays on the host.
func (w *world) persistent() {
	before := w.servers()
	w.kubectl("delete", "pods", "-l", "app=web", "--wait")
	for _, pod := range w.rolledOut() {
		if slices.Contains(before, pod) {
			w.Fatalf("pod %s was not replaced", pod)
		}
		w.until("a second start is in the logs of "+pod, func() (bool, string) {
			text := w.kubectl("logs", pod)
			return strings.Contains(text, pod+" serves, start 2"), text
		})
	}
	w.step("logs, and a hostPath volume that outlived its pod")
}

// forwarded forwards a port to a pod.
func (w *world) forwarded() {
	ctx, cancel := context.WithTimeout(w.Context(), w.patience())
	defer cancel()
	pod := w.servers()[0]
	cmd := w.command(ctx, "kubectl", "--cluster", "rack", "port-forward", "pod/"+pod, ":8080")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, found := strings.Cut(line, "127.0.0.1:")
	port, _, _ := strings.Cut(rest, " ")
	if err != nil || !found {
		w.Fatalf("port-forward does not name its port: %q, %v", line, err)
	}
	answer, err := (&http.Client{Timeout: time.Minute}).Get("http://127.0.0.1:" + port + "/")
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10)); err != nil || !strings.HasPrefix(string(text), pod) {
		w.Fatalf("the answer through the forwarded port is %q, %v", text, err)
	}
	w.step("port-forward")
}
