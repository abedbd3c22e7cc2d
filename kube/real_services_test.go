//go:build linux

package kube_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// serviceConfig is realConfig with a token for another Node. It replaces kubeadm's range of Services, which contains
// the addresses of the test's hosts. kube-proxy drops packets to addresses of that range that belong to no Service.
const serviceConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: ` + token + `}]
nodeRegistration: {taints: []}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.112.0.0/16}
`

// TestServicesByName creates a cluster of two Nodes with kubeadm's defaults, and fetches pages from a web server
// through Services by name. kube-proxy and CoreDNS come from the bundle and run in real pods.
func TestServicesByName(t *testing.T) {
	if testing.Short() {
		t.Skip("makes two nodes")
	}
	bundles, version := bundle(t)
	w := newWorld(t, bundles, version)
	one, two := w.host("one", 31), w.host("two", 32)
	serveImages(t, one)
	serveImages(t, two)
	step := steps(t)
	defer func() {
		if t.Failed() {
			out, _ := one.try("kubectl", "get", "pods,services,endpointslices", "-A", "-o", "wide")
			logs, _ := one.try("kubectl", "logs", "-n", "kube-system", "-l", "k8s-app in (kube-proxy, kube-dns)", "--prefix")
			t.Logf("%s\n%s", out, logs)
		}
	}()
	one.write("/root/init.yaml", withDNS(t, fmt.Sprintf(serviceConfig, version), bundles, version))
	one.kubeadm("init", "--config", "/root/init.yaml")
	join(t, two, one)
	step("both Nodes are Ready")
	rolledOut(one, "kube-system", "daemonset/kube-proxy", "deployment/coredns", "deployment/metrics-api")
	step("kube-proxy, CoreDNS and the metrics API are there")
	text, err := os.ReadFile("testdata/real/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one.write("/root/services.yaml", string(text))
	one.must("kubectl", "apply", "-f", "/root/services.yaml")
	rolledOut(one, "default", "daemonset/web", "daemonset/client")
	web, clients := byNode(t, one, "web"), byNode(t, one, "client")
	all := []string{web["one"], web["two"]}
	slices.Sort(all)
	step("web servers and clients are there")

	// Within moments, the rules match the Endpoints, and the names match the Services.
	for node, client := range clients {
		hear(t, one, client, "http://web.default.svc.cluster.local/hostname", all)
		hear(t, one, client, "http://web/hostname", all)
		hear(t, one, client, "http://headless:8080/hostname", all)
		hear(t, one, client, "http://near/hostname", []string{web[node]})
	}
	hear(t, one, web["one"], "http://web/hostname", all) // including itself
	first, err := fetch(one, clients["two"], "http://sticky/hostname")
	if err != nil {
		t.Fatal(err)
	}
	hear(t, one, clients["two"], "http://sticky/hostname", []string{first})
	if _, err := fetch(one, clients["one"], "http://gone/"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a Service without pods: %v, want the connection refused", err)
	}
	for _, asked := range []*host{one, two} {
		for _, asks := range []*host{one, two} {
			url := "http://" + asked.address + ":30080/hostname"
			waitFor(t, podLimit, url, func() error { return oneOf(all)(asks.get(url)) })
		}
	}
	step("Services answer by name")
	one.must("kubectl", "delete", "pod", "-n", "kube-system", "-l", "k8s-app=kube-proxy", "--wait=false")
	hear(t, one, clients["two"], "http://web/hostname", all)
	rolledOut(one, "kube-system", "daemonset/kube-proxy")
	one.must("kubectl", "delete", "pod", web["two"])
	rolledOut(one, "default", "daemonset/web")
	web = byNode(t, one, "web")
	all = []string{web["one"], web["two"]}
	slices.Sort(all)
	hear(t, one, clients["one"], "http://web/hostname", all)
	step("Services answer after kube-proxy and pods were replaced")
	top(t, one, clients["two"])
	step("kubectl top shows what pods and Nodes use")
}

// rolledOut waits until workloads are available.
func rolledOut(h *host, namespace string, names ...string) {
	h.w.t.Helper()
	for _, name := range names {
		h.must("kubectl", "rollout", "status", "-n", namespace, name, "--timeout=120s")
	}
}

// byNode maps the Nodes' names to the names of an app's running pods.
func byNode(t *testing.T, h *host, app string) map[string]string {
	t.Helper()
	pods := map[string]string{}
	out := h.must("kubectl", "get", "pods", "-l", "app="+app, "-o",
		`jsonpath={range .items[?(@.status.phase=="Running")]}{.spec.nodeName} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		node, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		pods[node] = name
	}
	if len(pods) != 2 {
		t.Fatalf("pods of %s are on %v, want two Nodes", app, pods)
	}
	return pods
}

// fetch returns the content of a URL, fetched by a pod.
func fetch(h *host, pod, url string) (string, error) {
	out, err := h.try("kubectl", "exec", pod, "--", "/pod", "get="+url)
	return strings.TrimSpace(out), err
}

// oneOf returns a check that fails unless the answer is one of the strings in want.
func oneOf(want []string) func(got string, err error) error {
	return func(got string, err error) error {
		if got = strings.TrimSpace(got); err == nil && !slices.Contains(want, got) {
			err = fmt.Errorf("got %q, want one of %q", got, want)
		}
		return err
	}
}

// hear asks until all wanted answers have come, then a few more times, and fails on any other answer.
func hear(t *testing.T, h *host, pod, url string, want []string) {
	t.Helper()
	const atLeast, atMost = 4, 40
	waitFor(t, podLimit, url+" from "+pod, func() error {
		heard := map[string]bool{}
		for i := range atMost {
			got, err := fetch(h, pod, url)
			if err := oneOf(want)(got, err); err != nil {
				return err
			}
			if heard[got] = true; i >= atLeast && len(heard) == len(want) {
				return nil
			}
		}
		return errors.New("not all wanted answers have come")
	})
}
