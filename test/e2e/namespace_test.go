package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// placed is a host with its namespace.
type placed struct {
	hostRow
	Namespace string
}

// everywhere lists the hosts of all namespaces; no two of them may have the same name.
func everywhere(t *testing.T, o own) (all []placed) {
	t.Helper()
	if err := json.Unmarshal([]byte(o.must(t, "host", "list", "-A", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, h := range all {
		if other, twice := seen[h.Name]; twice {
			t.Errorf("host %s is in namespaces %s and %s", h.Name, other, h.Namespace)
		}
		seen[h.Name] = h.Namespace
	}
	return all
}

// claimsIn returns the hosts of a namespace that are claimed by machines of that namespace.
func claimsIn(t *testing.T, o own, namespace string) (hosts []string) {
	t.Helper()
	machines := strings.Fields(o.must(t, "kubectl", "get", "capstanmachines", "-n", namespace, "-o", "name"))
	for _, h := range everywhere(t, o) {
		if h.Namespace != namespace || h.Machine == "" {
			continue
		}
		if !slices.ContainsFunc(machines, func(m string) bool { return strings.HasSuffix(m, "/"+h.Machine) }) {
			t.Errorf("host %s of namespace %s is claimed by machine %s, which is not in that namespace",
				h.Name, namespace, h.Machine)
		}
		hosts = append(hosts, h.Name)
	}
	return hosts
}

// givenBack waits until all hosts are in namespace default again.
func givenBack(t *testing.T, o own, want int) {
	t.Helper()
	eventually(t, "all hosts are in namespace default", func() error {
		all := everywhere(t, o)
		if len(all) != want || slices.ContainsFunc(all, func(h placed) bool { return h.Namespace != "default" }) {
			return fmt.Errorf("hosts: %+v", all)
		}
		return nil
	})
}

// TestNamespacesShareHosts: two clusters of the same name in two namespaces have separate hosts, endpoints and
// kubeconfigs, from one budget. Deleting a cluster returns its hosts, and so does deleting its namespace.
func TestNamespacesShareHosts(t *testing.T) {
	long.Need(t)
	o := newOwn(t)
	o.must(t, "up", "--hosts", "4")
	for _, namespace := range []string{"blue", "green"} {
		o.must(t, "kubectl", "create", "namespace", namespace)
	}
	o.must(t, "cluster", "create", "demo", "--workers", "0")
	o.must(t, "-n", "blue", "cluster", "create", "demo", "--workers", "1")
	if here, there := claimsIn(t, o, "default"), claimsIn(t, o, "blue"); len(here) != 1 || len(there) != 2 {
		t.Errorf("%v are claimed in default, %v in blue; want 1 and 2 hosts", here, there)
	}
	nodes := func(cluster string) []string {
		return strings.Fields(o.must(t, "kubectl", "--cluster", cluster, "get", "nodes", "-o", "name"))
	}
	if here, there := nodes("demo"), nodes("blue/demo"); len(here) != 1 || len(there) != 2 ||
		slices.Contains(there, here[0]) {
		t.Errorf("the Nodes are %v in default, %v in blue; want 1 and 2 different ones", here, there)
	}
	endpoints := o.must(t, "kubectl", "get", "clusters", "-A", "-o", "jsonpath={.items[*].spec.controlPlaneEndpoint.host}")
	if two := strings.Fields(endpoints); len(two) != 2 || two[0] == two[1] {
		t.Errorf("the endpoints are %v, want two different ones", two)
	}

	o.refused(t, []string{"namespace blue can have 4 at most: all 4 local hosts", "capstan up --hosts 10"},
		"-n", "blue", "cluster", "create", "big", "--workers", "9")
	o.refused(t, []string{"cluster needs 2 hosts, there are none"},
		"-n", "green", "cluster", "create", "waits", "--workers", "1", "--timeout", "8s")
	if out := o.must(t, "status"); !strings.Contains(out, "2 more") {
		t.Errorf("the status does not say that a cluster waits for hosts:\n%s", out)
	}
	o.must(t, "-n", "green", "cluster", "delete", "waits")
	o.must(t, "-n", "blue", "cluster", "delete", "demo")
	givenBack(t, o, 4)
	if left := nodes("demo"); len(left) != 1 {
		t.Errorf("the cluster in default has the Nodes %v, want 1", left)
	}

	o.must(t, "-n", "blue", "cluster", "create", "again", "--workers", "0")
	before := time.Now()
	o.must(t, "kubectl", "delete", "namespace", "blue", "green", "--timeout=2m")
	t.Logf("the namespaces are gone after %s", time.Since(before).Round(time.Second))
	givenBack(t, o, 4)
}
