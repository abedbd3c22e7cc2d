package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

type objectList struct {
	Items []struct {
		Metadata struct {
			Name              string
			Labels            map[string]string
			DeletionTimestamp string
		}
		Spec struct {
			ProviderID string
		}
		Status struct {
			Phase      string
			Conditions []struct{ Type, Status, Reason, Message string }
			NodeInfo   struct{ KubeletVersion string }
		}
	}
}

type hostRow struct{ Name, State, Cluster, Machine, Zone, Address string }

// readyNodes returns the names of the Ready nodes of a cluster, and fails the test if a node is not Ready or is hollow.
func readyNodes(t *testing.T, cluster string) []string {
	t.Helper()
	var names []string
	for _, n := range decode[objectList](t, "kubectl", "--cluster", cluster, "get", "nodes").Items {
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || (c.Type == "Ready" && c.Status == "True")
		}
		if !ready {
			t.Errorf("node %s is not Ready", n.Metadata.Name)
		}
		if n.Metadata.Labels["capstan.dev/hollow"] != "" || n.Metadata.Labels["capstan.dev/ids"] == "" {
			t.Errorf("node %s has labels %v, want one with real pods", n.Metadata.Name, n.Metadata.Labels)
		}
		if !strings.HasPrefix(n.Spec.ProviderID, "capstan://default/host-") {
			t.Errorf("node %s has providerID %q, which names no host (IM-11)", n.Metadata.Name, n.Spec.ProviderID)
		}
		names = append(names, n.Metadata.Name)
	}
	return names
}

func claimed(t *testing.T, cluster string) []hostRow {
	t.Helper()
	var rows []hostRow
	seen := map[string]bool{}
	for _, h := range decode[[]hostRow](t, "host", "list") {
		if h.Cluster != cluster {
			continue
		}
		if seen[h.Machine] {
			t.Errorf("machine %s has two hosts", h.Machine)
		}
		seen[h.Machine] = true
		rows = append(rows, h)
	}
	return rows
}

func TestCluster(t *testing.T) {
	const name = "demo"
	must(t, "cluster", "create", name)
	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"create makes three Ready nodes on three hosts", func(t *testing.T) {
			if n := readyNodes(t, name); len(n) != 3 {
				t.Errorf("nodes %v, want 3", n)
			}
			if h := claimed(t, name); len(h) != 3 {
				t.Errorf("hosts %v, want 3", h)
			}
		}},
		{"the hooks were called and recorded", func(t *testing.T) {
			out := must(t, "hook", "timeline", name)
			for _, want := range []string{"BeforeClusterCreate", "AfterControlPlaneInitialized", "Success"} {
				if !strings.Contains(out, want) {
					t.Errorf("timeline has no %s:\n%s", want, out)
				}
			}
		}},
		{"describe shows cluster, machines and hosts", func(t *testing.T) {
			out := must(t, "cluster", "describe", name)
			for _, want := range []string{"Cluster/demo", "KubeadmControlPlane/", "MachineDeployment/",
				"CapstanHost/", "InUse"} {
				if !strings.Contains(out, want) {
					t.Errorf("describe has no %s:\n%s", want, out)
				}
			}
		}},
		{"the bootstrap output is shown, and the API has no bootstrap Secret any more", func(t *testing.T) {
			if out := must(t, "host", "logs", claimed(t, name)[0].Name); !strings.Contains(out, "kubeadm") &&
				!strings.Contains(out, "preflight") {
				t.Errorf("host logs do not look like kubeadm's output:\n%s", out)
			}
			for _, s := range decode[objectList](t, "kubectl", "get", "secrets").Items {
				if strings.HasSuffix(s.Metadata.Name, "-bootstrap") && strings.HasPrefix(s.Metadata.Name, "host-") {
					t.Errorf("bootstrap Secret %s outlived the bootstrap", s.Metadata.Name)
				}
			}
		}},
		{"workers scale up and down", func(t *testing.T) {
			must(t, "cluster", "scale", name, "--workers", "3")
			if n := readyNodes(t, name); len(n) != 4 {
				t.Errorf("nodes %v, want 4", n)
			}
			must(t, "cluster", "scale", name, "--workers", "1")
			if n := readyNodes(t, name); len(n) != 2 {
				t.Errorf("nodes %v, want 2", n)
			}
			eventually(t, "released hosts return to the pool", func() error {
				if h := claimed(t, name); len(h) != 2 {
					return fmt.Errorf("%d hosts are claimed, want 2: %v", len(h), h)
				}
				return nil
			})
		}},
		{"a deleted machine is replaced", func(t *testing.T) {
			victim := ""
			for _, m := range decode[objectList](t, "kubectl", "get", "machines").Items {
				if m.Metadata.Labels["cluster.x-k8s.io/deployment-name"] != "" {
					victim = m.Metadata.Name
				}
			}
			must(t, "kubectl", "delete", "machine", victim)
			eventually(t, "the replacement's node is Ready", func() error {
				var names []string
				for _, n := range decode[objectList](t, "kubectl", "--cluster", name, "get", "nodes").Items {
					ready := false
					for _, c := range n.Status.Conditions {
						ready = ready || (c.Type == "Ready" && c.Status == "True")
					}
					if ready {
						names = append(names, n.Metadata.Name)
					}
				}
				if len(names) != 2 || strings.Contains(strings.Join(names, " "), victim) {
					return fmt.Errorf("ready nodes %v, want two without %s", names, victim)
				}
				return nil
			})
		}},
		{"delete returns all hosts", func(t *testing.T) {
			must(t, "cluster", "delete", name)
			if h := claimed(t, name); len(h) != 0 {
				t.Errorf("hosts %v are still claimed", h)
			}
			for _, h := range decode[[]hostRow](t, "host", "list") {
				if h.State != "Off" {
					t.Errorf("host %s is %s, want Off", h.Name, h.State)
				}
			}
		}},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			return // the following tests depend on it
		}
	}
}

func TestHighAvailability(t *testing.T) {
	const name = "ha"
	must(t, "cluster", "create", name, "--control-plane", "3", "--workers", "1")
	if n := readyNodes(t, name); len(n) != 4 {
		t.Errorf("nodes %v, want 4", n)
	}
	pods := must(t, "kubectl", "--cluster", name, "-n", "kube-system", "get", "pods", "-l", "component=etcd", "-o", "name")
	if n := len(strings.Fields(pods)); n != 3 {
		t.Errorf("%d etcd members, want 3:\n%s", n, pods)
	}
	zones := map[string]bool{}
	for _, h := range claimed(t, name) {
		if strings.HasPrefix(h.Machine, name+"-cp") {
			zones[h.Zone] = true
		}
	}
	if len(zones) != 3 {
		t.Errorf("control planes are in zones %v, want three (IM-17)", zones)
	}
	must(t, "cluster", "scale", name, "--control-plane", "1")
	if n := readyNodes(t, name); len(n) != 2 {
		t.Errorf("nodes %v, want 2", n)
	}
	must(t, "cluster", "delete", name)
}

func TestKubectlApplyDoesTheSame(t *testing.T) {
	manifest := must(t, "cluster", "create", "applied", "--workers", "0", "--dry-run", "-o", "yaml")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(ctx, "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "the node is Ready", func() error {
		out, stderr, err := try(t, "kubectl", "--cluster", "applied", "get", "nodes", "--no-headers")
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		if !strings.Contains(out, " Ready ") {
			return fmt.Errorf("nodes:\n%s", out)
		}
		return nil
	})
	must(t, "cluster", "delete", "applied")
}

func TestCapacityGateHoldsAClusterBack(t *testing.T) {
	must(t, "cluster", "create", "first", "--workers", "5", "--wait=false")
	must(t, "cluster", "create", "second", "--workers", "7", "--wait=false")
	eventually(t, "the Cluster's condition says how many hosts it needs", func() error {
		out := must(t, "kubectl", "get", "cluster", "second", "-o",
			"jsonpath={.status.conditions[?(@.type=='TopologyReconciled')].message}")
		if !strings.Contains(out, "needs 8 hosts") {
			return fmt.Errorf("message %q", out)
		}
		return nil
	})
	t.Attr("rule", "RX-29")
	t.Attr("rule", "CL-08")
	if h := claimed(t, "second"); len(h) != 0 {
		t.Errorf("the cluster for which there are too few hosts claimed %v", h)
	}
	must(t, "cluster", "delete", "second")
	must(t, "cluster", "delete", "first")
}

func TestMistakesAreAnswered(t *testing.T) {
	mustFail(t, "there is no bundle for Kubernetes v1.99.0", "cluster", "create", "x", "--kubernetes-version", "v1.99.0")
	mustFail(t, `there is no ClusterClass "nope"`, "cluster", "create", "x", "--class", "nope")
	mustFail(t, `there is no cluster "nope"`, "cluster", "describe", "nope")
	mustFail(t, `there is no cluster "nope"`, "cluster", "delete", "nope")
	mustFail(t, `there is no cluster "nope"`, "kubectl", "--cluster", "nope", "get", "nodes")
	mustFail(t, "the cluster needs 52 hosts", "cluster", "create", "x", "--control-plane", "1", "--workers", "51")
	mustFail(t, "odd number", "cluster", "create", "x", "--control-plane", "2")
	mustFail(t, "does not work", "cluster", "create", "X")
	mustFail(t, "is not the name of a host", "host", "logs", "../../etc")
	if out := must(t, "kubectl", "get", "clusters", "-o", "name"); out != "" {
		t.Errorf("a refused command created a cluster: %s", out)
	}
}

func TestUpIsIdempotent(t *testing.T) {
	first := must(t, "status", "-o", "json")
	done := make(chan error, 2)
	for range 2 {
		go func() {
			cmd := exec.CommandContext(t.Context(), capstan, "up", "--home", homeDir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("capstan up failed while the plane was running: %v", err)
		}
	}
	if second := must(t, "status", "-o", "json"); first == "" || second == "" {
		t.Errorf("status printed nothing")
	}
}
