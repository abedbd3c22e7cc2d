//go:build linux

package whole

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit is the time limit for each command.
const limit = 5 * time.Minute

// home is a home directory with a plane of its own.
type home struct {
	*testing.T
	binary, dir, audit string
}

// run runs capstan and returns what it printed.
func (h home) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+h.dir, "CAPSTAN_CONTRACT=v1beta1", "CAPSTAN_AUDIT_LOG="+h.audit)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	err := cmd.Run()
	h.Logf("capstan %s: %s", strings.Join(args, " "), time.Since(start).Round(100*time.Millisecond))
	if err != nil {
		err = errors.Join(err, errors.New(errOut.String()))
	}
	return out.String(), err
}

func (h home) must(args ...string) string {
	h.Helper()
	out, err := h.run(args...)
	if err != nil {
		objects, _ := h.run("kubectl", "get", "clusters,machines,capstanmachines,capstanhosts", "-o", "wide")
		h.Fatalf("capstan %s: %v\n%s", strings.Join(args, " "), err, objects)
	}
	return out
}

// object has the fields of an object that the tests check.
type object struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		ProviderID, FailureDomain string
		ControlPlaneEndpoint      struct{ Host string }
	}
	Status struct {
		Ready          bool
		FailureDomains map[string]any
		Addresses      []any
		Conditions     []struct{ Type, Status string }
	}
}

func (o object) is(condition string) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return true
		}
	}
	return false
}

func (h home) objects(args ...string) []object {
	h.Helper()
	list := struct{ Items []object }{}
	out := h.must(append(append([]string{"kubectl"}, args...), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		h.Fatalf("%v: %s", err, out)
	}
	return list.Items
}

// TestClusterByContractV1Beta1 creates a real cluster, scales it and deletes it.
func TestClusterByContractV1Beta1(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_WHOLE") == "" {
		t.Skip("a whole cluster takes a minute: run make test-v1beta1")
	}
	binaries := "../../../bin"
	if other := os.Getenv("CAPSTAN_BIN"); other != "" {
		binaries = other
	}
	binary, err := filepath.Abs(filepath.Join(binaries, "capstan"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	dir, err := os.MkdirTemp("", "capstan-v1beta1-")
	if err != nil {
		t.Fatal(err)
	}
	h := home{T: t, binary: binary, dir: filepath.Join(dir, "home"), audit: filepath.Join(dir, "audit.log")}
	t.Cleanup(func() {
		if out, err := h.run("down", "--delete"); err != nil {
			t.Errorf("capstan down --delete: %v\n%s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		h.leftNothing(dir)
	})
	h.must("up", "--hosts", "4")
	for _, crd := range h.objects("get", "customresourcedefinitions") {
		if strings.HasSuffix(crd.Metadata.Name, ".infrastructure.capstan.dev") &&
			crd.Metadata.Labels["cluster.x-k8s.io/v1beta2"] != "" {
			t.Fatalf("definition %s has the label of contract v1beta2: %v", crd.Metadata.Name, crd.Metadata.Labels)
		}
	}
	const name = "old"
	h.must("cluster", "create", name, "--workers", "1")
	h.looksGood(name, 2)
	h.must("cluster", "scale", name, "--workers", "2")
	h.looksGood(name, 3)
	h.must("cluster", "scale", name, "--workers", "1")
	h.looksGood(name, 2)
	h.coreWorkedByIt()
	h.must("cluster", "delete", name)
	if left := h.objects("get", "capstanmachines,capstanclusters"); len(left) != 0 {
		t.Errorf("objects left after the deletion: %+v", left)
	}
}

// looksGood checks the fields of contract v1beta1 in a cluster of n machines, and the cluster's Nodes.
func (h home) looksGood(name string, n int) {
	h.Helper()
	for _, c := range h.objects("get", "capstanclusters.v1beta1.infrastructure.capstan.dev") {
		if !c.Status.Ready || c.Spec.ControlPlaneEndpoint.Host == "" || len(c.Status.FailureDomains) != 3 || !c.is("Ready") {
			h.Errorf("the CapstanCluster is not ready, or lacks endpoint or failure domains: %+v", c)
		}
	}
	ids := map[string]bool{}
	machines := h.objects("get", "capstanmachines.v1beta1.infrastructure.capstan.dev")
	for _, m := range machines {
		if !m.Status.Ready || m.Spec.ProviderID == "" || m.Spec.FailureDomain == "" || len(m.Status.Addresses) == 0 ||
			!m.is("Ready") {
			h.Errorf("the CapstanMachine is not ready, or lacks provider id, failure domain or addresses: %+v", m)
		}
		ids[m.Spec.ProviderID] = true
	}
	nodes := h.objects("--cluster", name, "get", "nodes")
	for _, node := range nodes {
		if !node.is("Ready") || !ids[node.Spec.ProviderID] {
			h.Errorf("the Node is not Ready, or belongs to no machine: %+v; the machines have the ids %v", node, ids)
		}
	}
	if len(machines) != n || len(nodes) != n {
		h.Errorf("%d machines, %d nodes, want %d", len(machines), len(nodes), n)
	}
}

// coreWorkedByIt checks in the audit log that core reads our objects in the version that serves the contract.
func (h home) coreWorkedByIt() {
	h.Helper()
	data, err := os.ReadFile(h.audit)
	if err != nil {
		h.Fatal(err)
	}
	count := map[string]int{}
	for _, line := range strings.Split(string(data), "\n") {
		r := struct {
			RequestURI string
			User       struct{ Username string }
		}{}
		if json.Unmarshal([]byte(line), &r) != nil || r.User.Username != "capstan:manager" {
			continue
		}
		for _, version := range []string{"v1beta1", "v1beta2"} {
			if strings.HasPrefix(r.RequestURI, "/apis/infrastructure.capstan.dev/"+version+"/") {
				count[version]++
			}
		}
	}
	h.Logf("requests for our objects by version: %v", count)
	if count["v1beta1"] == 0 {
		h.Error("core never requested our objects in v1beta1")
	}
}

// leftNothing fails the test if processes, mounts or files are left.
func (h home) leftNothing(dir string) {
	h.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if data, err := os.ReadFile(p); err == nil && bytes.Contains(data, []byte(dir)) {
			h.Errorf("left behind: process %s", bytes.ReplaceAll(data, []byte{0}, []byte{' '}))
		}
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); bytes.Contains(mounts, []byte(dir)) {
		h.Error("left behind: a mount")
	}
}
