package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/long"
)

// TestFlavors creates a real cluster from each flavor of the release, on the plane's hosts. Flavors for owned hosts
// need the user's own endpoint: here, a load balancer in the hosts' network. kube-vip can't run on local hosts, so the
// address of a flavor with kube-vip is also that of the load balancer.
func TestFlavors(t *testing.T) {
	long.Need(t)
	for _, flavor := range []struct {
		name                         string
		controlPlane, workers, total int
		owned                        bool // with the user's own endpoint
	}{
		{"", 1, 1, 2, false},
		{"external", 1, 1, 2, true},
		{"topology", 1, 1, 2, false},
		{"topology-owned", 1, 1, 2, true},
		{"vip", 1, 1, 2, true},
		{"ha", 3, 1, 6, true}, // a worker in each zone
	} {
		t.Run("flavor "+flavor.name, func(t *testing.T) {
			name := "f-" + flavor.name
			if flavor.name == "" {
				name = "f-default"
			}
			var balancer endpoint
			if flavor.owned {
				const port = "6443"
				balancer = newEndpoint(t, port)
				t.Setenv("CAPSTAN_ENDPOINT_HOST", endpointAddress)
				t.Setenv("CAPSTAN_ENDPOINT_PORT", port)
				t.Setenv("CAPSTAN_VIP_IMAGE", "localhost/kube-vip:v1")
				if flavor.name == "topology-owned" {
					t.Setenv("CAPSTAN_VIP_IMAGE", "")
				}
			}
			yaml := must(t, "clusterctl", "generate", "cluster", name, "--flavor", flavor.name, "--kubernetes-version",
				versionIn(t, "DEFAULT_VERSION"),
				"--control-plane-machine-count", fmt.Sprint(flavor.controlPlane), "--worker-machine-count",
				fmt.Sprint(flavor.workers))
			file := filepath.Join(t.TempDir(), "cluster.yaml")
			if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, "kubectl", "apply", "-f", file)
			defer func() {
				must(t, "kubectl", "delete", "cluster", name, "--timeout=2m")
				vanishes(t, name)
			}()
			eventually(t, "all machines are available", func() error {
				if flavor.owned {
					balancer.balance(t, controlPlaneAddresses(t, name))
				}
				out := must(t, "kubectl", "get", "machines", "-l", "cluster.x-k8s.io/cluster-name="+name,
					"-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Available")].status}{"\n"}{end}`)
				if n := strings.Count(out, "True"); n != flavor.total {
					return fmt.Errorf("%d of %d machines are available", n, flavor.total)
				}
				return nil
			})
			if flavor.controlPlane > 1 {
				etcdMembers(t, name, flavor.controlPlane)
				spread(t, name)
			}
		})
	}
}

// etcdMembers waits until each control plane machine has a healthy etcd member, as the control plane provider sees it.
// Unlike [members], it asks only the plane: capstan kubectl --cluster refuses an endpoint on [endpointAddress], because
// that address is the dock's own.
func etcdMembers(t *testing.T, cluster string, want int) {
	t.Helper()
	eventually(t, "each control plane machine has a healthy etcd member", func() error {
		out := must(t, "kubectl", "get", "machines", "-l",
			"cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name="+cluster, "-o",
			`jsonpath={range .items[*]}{.status.conditions[?(@.type=="EtcdMemberHealthy")].status}{"\n"}{end}`)
		if n := strings.Count(out, "True"); n != want || strings.Count(out, "\n") != want {
			return fmt.Errorf("%d of %d members are healthy: %q", n, want, out)
		}
		return nil
	})
}

// controlPlaneAddresses returns the addresses of the hosts with control plane machines of a cluster.
func controlPlaneAddresses(t *testing.T, cluster string) []string {
	t.Helper()
	machines := must(t, "kubectl", "get", "machines", "-l",
		"cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name="+cluster, "-o",
		`jsonpath={.items[*].spec.infrastructureRef.name}`)
	var addresses []string
	for _, h := range claimed(t, cluster) {
		for _, m := range strings.Fields(machines) {
			if h.Machine == m && h.Address != "" {
				addresses = append(addresses, h.Address)
			}
		}
	}
	return addresses
}

// spread checks that the control planes are in three zones, and so are the workers.
func spread(t *testing.T, cluster string) {
	t.Helper()
	control := strings.Join(controlPlaneAddresses(t, cluster), " ")
	zones := map[bool]map[string]bool{false: {}, true: {}}
	for _, h := range claimed(t, cluster) {
		zones[strings.Contains(" "+control+" ", " "+h.Address+" ")][h.Zone] = true
	}
	if len(zones[true]) != 3 || len(zones[false]) != 3 {
		t.Errorf("control planes and workers are in zones %v, want three zones each", zones)
	}
}
