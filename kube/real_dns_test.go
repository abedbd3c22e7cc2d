//go:build linux

package kube_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/kube/run"
)

// withDNS completes a kubeadm configuration. If the Node's own bundle has no CoreDNS, like that of v1.34 (ADR 39), it
// selects the CoreDNS of the default bundle. A Node can run CoreDNS of any bundle on its host.
func withDNS(t *testing.T, config, bundles, version string) string {
	t.Helper()
	if slices.Contains(contentsOf(t, bundles, version).Applets, "coredns") {
		return config
	}
	return config + "dns: {imageTag: " + contentsOf(t, bundles, defaultVersion(t)).CoreDNS + "}\n"
}

// nameServer installs CoreDNS with kubeadm, without a registry, and asks each of CoreDNS's pods to resolve a name.
// There is no kube-proxy, so the test must configure CoreDNS with the API server's address.
func nameServer(t *testing.T, h *host) {
	h.kubeadm("init", "phase", "addon", "coredns", "--config", "/root/init.yaml")
	h.must("kubectl", "-n", "kube-system", "set", "env", "deployment/coredns",
		"KUBERNETES_SERVICE_HOST="+h.address, "KUBERNETES_SERVICE_PORT=6443")
	h.must("kubectl", "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s")
	waitFor(t, podLimit, "the name of the API server's Service", func() error {
		out, err := h.try("kubectl", "-n", "kube-system", "get", "endpointslices", "-l",
			"kubernetes.io/service-name=kube-dns",
			"-o", `jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}`)
		if err != nil {
			return err
		}
		addresses := strings.Fields(out)
		if len(addresses) != 2 {
			return fmt.Errorf("CoreDNS has the addresses %q, want two", addresses)
		}
		for _, address := range addresses {
			out, err := h.try("/opt/capstan/layers/one/pod", "ask="+address+",kubernetes.default.svc.cluster.local.")
			if err != nil || out != "10.96.0.1\n" {
				return fmt.Errorf("%s answers %q: %v", address, out, err)
			}
		}
		return nil
	})
	for name, p := range realProcesses(t, h) {
		if strings.HasPrefix(name, "coredns-") {
			checkNameServer(t, h, name, p.Report)
		}
	}
}

// checkNameServer checks the process of a Ready CoreDNS.
func checkNameServer(t *testing.T, h *host, name string, p run.Report) {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(p.PID)
	out := h.must("/bin/sh", "-c", "readlink "+proc+"/exe; ls "+proc+"/root/; tr '\\0' ' ' <"+proc+"/cmdline")
	if !strings.HasPrefix(out, "/coredns\n") || strings.Contains(out, "\nusr\n") ||
		!strings.HasSuffix(out, "/coredns -conf /etc/coredns/Corefile ") {
		t.Errorf("%s: the program and its root are not those of the image: %q", name, out)
	}
	for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts"} {
		links := h.must("readlink", "/proc/1/ns/"+kind, proc+"/ns/"+kind)
		if host, own, _ := strings.Cut(strings.TrimSpace(links), "\n"); host == own {
			t.Errorf("%s has the host's %s namespace", name, kind)
		}
	}
	if p.User.UID != 65532 {
		t.Errorf("%s runs as user %d", name, p.User.UID)
	}
	status := h.must("cat", proc+"/status")
	for _, want := range []string{"NoNewPrivs:\t1", "CapBnd:\t0000000000000400", "CapEff:\t0000000000000000"} {
		if !strings.Contains(status, want) {
			t.Errorf("%s: the status has no line %q: %s", name, want, status)
		}
	}
	t.Logf("%s: %s", name, strings.Join(memoryLines(h, proc), ", "))
}

// memoryLines returns a process's memory: resident, proportional and private.
func memoryLines(h *host, proc string) []string {
	var lines []string
	rollup, err := h.try("cat", proc+"/smaps_rollup")
	for line := range strings.Lines(rollup) {
		for _, name := range []string{"Rss:", "Pss:", "Private_Dirty:"} {
			if strings.HasPrefix(line, name) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	if err != nil {
		lines = append(lines, err.Error())
	}
	return lines
}
