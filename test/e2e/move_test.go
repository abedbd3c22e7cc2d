package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/test/long"
)

const (
	// fleet is the namespace of owned hosts and their cluster.
	fleet = "fleet"
	// leaderChange is how long a control plane may normally be without a leader. It is the longest time that may pass
	// between two answers during a move.
	leaderChange = 15 * time.Second
	// pingTimeout limits one request.
	pingTimeout = 3 * time.Second
)

// TestMoveBetweenPlanes moves a real cluster on owned hosts from one plane to another. The hosts belong to a third
// dock, in which no plane runs; their agents are enrolled by hand, like those of any owned host. The test checks
// throughout that the cluster on these hosts answers. The mover is killed on the way, and then both planes. Afterwards
// the cluster grows by a host that the second plane enrolled, and is deleted there.
func TestMoveBetweenPlanes(t *testing.T) {
	long.Need(t)
	target := newOwn(t)
	target.must(t, "up", "--hosts", "1")
	y := newYard(t, target)
	source := own{home: homeDir}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := target.run(context.Background(), "kubectl", "get", "capstanhosts", "-n", fleet, "-o", "yaml")
			t.Logf("the hosts: %v\n%s", err, out)
		}
	})
	source.must(t, "kubectl", "create", "namespace", fleet)
	target.must(t, "kubectl", "create", "namespace", fleet)
	t.Cleanup(func() {
		if out, err := source.run(context.Background(), "kubectl", "delete", "namespace", fleet, "--timeout=1m"); err != nil {
			t.Errorf("deleting the namespace: %v\n%s", err, out)
		}
	})
	for _, name := range []string{"own-1", "own-2"} {
		y.enroll(t, source, sourcePort, name)
	}

	const name = "mover"
	t.Setenv("CAPSTAN_ENDPOINT_HOST", endpointAddress)
	yaml := must(t, "clusterctl", "generate", "cluster", name, "-n", fleet, "--flavor", "external", "--kubernetes-version",
		versionIn(t, "DEFAULT_VERSION"),
		"--control-plane-machine-count", "1", "--worker-machine-count", "1")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	source.must(t, "kubectl", "apply", "-n", fleet, "-f", file)
	eventually(t, "all machines are available", func() error {
		y.balance(t, source, name)
		return available(t, source, name, 2)
	})

	nodes, hosts := y.nodes(t, source, name), y.hosts(t)
	pinger := y.ping(t, source, name, nodes)
	move := []string{"clusterctl", "move", "-n", fleet, "--to-kubeconfig", filepath.Join(target.home, "kubeconfig"),
		"--agent-server", "https://" + net.JoinHostPort(endpointAddress, targetPort)}
	ctx, kill := context.WithCancel(t.Context())
	interrupted := make(chan string, 1)
	go func() {
		out, _ := source.run(ctx, move...)
		interrupted <- out
	}()
	eventually(t, "the first host arrives", func() error {
		if len(list(t, target, "capstanhosts")) == 0 {
			return fmt.Errorf("the target has no host")
		}
		return nil
	})
	kill()
	t.Logf("the mover that was killed said:\n%s", <-interrupted)
	for _, plane := range []own{source, target} {
		plane.killPlane(t)
		plane.must(t, "up")
	}
	if clusters := list(t, source, "clusters"); len(clusters) > 0 {
		source.must(t, "kubectl", "patch", "cluster", name, "-n", fleet, "--type", "merge", "-p", `{"spec":{"paused":null}}`)
	} else {
		t.Log("the mover was killed late: the cluster had left already")
	}
	began := time.Now()
	source.must(t, move...)
	t.Logf("the second move took %s", time.Since(began).Round(100*time.Millisecond))
	if paused := target.must(t, "kubectl", "get", "cluster", name, "-n", fleet, "-o",
		"jsonpath={.spec.paused}"); paused == "true" {
		target.must(t, "kubectl", "patch", "cluster", name, "-n", fleet, "--type", "merge", "-p", `{"spec":{"paused":null}}`)
	}

	for _, kind := range []string{"clusters", "machines", "capstanmachines", "capstanhosts", "secrets"} {
		if left := list(t, source, kind); len(left) > 0 {
			t.Errorf("the source still has %s %v", kind, left)
		}
	}
	eventually(t, "all machines are available in the target", func() error { return available(t, target, name, 2) })
	eventually(t, "the agents work for the target", func() error { return inUse(t, target, 2) })
	pinger.rest(t)

	// Hosts and nodes were neither restarted nor recreated.
	if now := y.nodes(t, target, name); !slices.Equal(now, nodes) {
		t.Errorf("the nodes were\n%s\nand are\n%s", strings.Join(nodes, "\n"), strings.Join(now, "\n"))
	}
	if now := y.hosts(t); !slices.Equal(now, hosts) {
		t.Errorf("the hosts were\n%s\nand are\n%s", strings.Join(hosts, "\n"), strings.Join(now, "\n"))
	}

	// The target can manage the cluster completely.
	y.enroll(t, target, targetPort, "own-3")
	target.must(t, "kubectl", "scale", "machinedeployment", "-n", fleet, name+"-md-0", "--replicas", "2")
	eventually(t, "a worker joins", func() error { return available(t, target, name, 3) })
	target.must(t, "kubectl", "delete", "cluster", name, "-n", fleet, "--timeout=2m")
	eventually(t, "all hosts are clean", func() error {
		for _, h := range rows(t, target) {
			if h.Cluster != "" || h.State != "Available" {
				return fmt.Errorf("host %+v", h)
			}
		}
		return nil
	})
}

// Ports of the yard's network at which its hosts can reach the two planes.
const sourcePort, targetPort = "7441", "7442"

// yard is a dock without a plane, whose hosts play somebody's computers.
type yard struct {
	home    string
	dock    *dock.Client
	balance func(t *testing.T, plane own, cluster string)
	socket  string // leads to the cluster's endpoint
}

// newYard starts a yard. Its hosts can reach the shared plane and another one, and both planes can reach the endpoint
// of the cluster on these hosts.
func newYard(t *testing.T, target own) *yard {
	t.Helper()
	y := &yard{home: newOwn(t).home}
	var err error
	y.dock, err = dock.Start(t.Context(), dock.Options{Home: y.home, BinDir: filepath.Dir(capstan)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.dock.Close)
	dir, err := os.MkdirTemp("", "capstan-yard-") // short, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(port string) string { return "tcp " + net.JoinHostPort(endpointAddress, port) }
	for port, plane := range map[string]own{sourcePort: {home: homeDir}, targetPort: target} {
		socket := "unix " + filepath.Join(dir, port)
		newWire(t, "", socket, "tcp "+plane.server(t))
		newWire(t, y.home, at(port), socket)
	}
	const port = "6443"
	y.socket = filepath.Join(dir, port)
	socket := "unix " + y.socket
	inside, outside := newWire(t, y.home, at(port)), newWire(t, y.home, socket)
	newWire(t, homeDir, at(port), socket)
	newWire(t, target.home, at(port), socket)
	y.balance = func(t *testing.T, plane own, cluster string) {
		t.Helper()
		var backends []string
		machines := plane.must(t, "kubectl", "get", "machines", "-n", fleet, "-l",
			"cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name="+cluster, "-o",
			"jsonpath={.items[*].spec.infrastructureRef.name}")
		for _, h := range rows(t, plane) {
			if h.Address != "" && slices.Contains(strings.Fields(machines), h.Machine) {
				backends = append(backends, "tcp "+net.JoinHostPort(h.Address, port))
			}
		}
		inside.forward(t, backends...)
		outside.forward(t, backends...)
	}
	return y
}

// enroll registers a host with a plane, boots it with the agent's configuration, and waits until it is available.
func (y *yard) enroll(t *testing.T, plane own, port, name string) {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "host.yaml")
	text := "apiVersion: infrastructure.capstan.dev/v1beta2\nkind: CapstanHost\nmetadata: {name: " + name +
		", namespace: " + fleet + "}\nspec: {zone: zone-a}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plane.must(t, "kubectl", "apply", "-f", manifest)
	var token string
	eventually(t, "the host has an account", func() (err error) {
		token, err = plane.run(t.Context(), "kubectl", "create", "token", "-n", fleet, "host-"+name, "--duration", "10m",
			"--bound-object-kind", "Secret", "--bound-object-name", name+"-epoch-0")
		return err
	})
	config, err := supply.AgentConfig(supply.AgentServer{
		URL: "https://" + net.JoinHostPort(endpointAddress, port), CAData: plane.config(t).CAData,
	}, fleet, name, strings.TrimSpace(token))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.dock.EnsureHost(t.Context(), dock.HostSpec{
		Name: name, Files: []dock.File{{Path: "/etc/capstan/agent.yaml", Mode: 0o600, Data: config}},
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "host "+name+" is available", func() error {
		for _, h := range rows(t, plane) {
			if h.Name == name && h.State == "Available" {
				return nil
			}
		}
		return fmt.Errorf("hosts %+v", rows(t, plane))
	})
}

// hosts returns each host with a value that changes when the host is restarted.
func (y *yard) hosts(t *testing.T) []string {
	t.Helper()
	hosts, err := y.dock.ListHosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range hosts {
		all = append(all, fmt.Sprint(h.Name, " ", h.PID, " ", h.Since.UTC()))
	}
	return all
}

// config returns the client configuration of a plane's administrator.
func (o own) config(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(o.home, "kubeconfig"))
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// killPlane kills a plane, including its etcd and its API server.
func (o own) killPlane(t *testing.T) {
	t.Helper()
	client := dock.Connect(o.home)
	defer client.Close()
	units, err := client.ListUnits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if u.Name == "plane" && u.PID > 0 {
			if err := syscall.Kill(u.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no plane is running in %s: %+v", o.home, units)
}

// rows lists the hosts of the fleet.
func rows(t *testing.T, plane own) []hostRow {
	t.Helper()
	var all []hostRow
	if err := json.Unmarshal([]byte(plane.must(t, "host", "list", "-n", fleet, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// list returns the names of the objects of a kind in the fleet's namespace.
func list(t *testing.T, plane own, kind string) []string {
	t.Helper()
	return strings.Fields(plane.must(t, "kubectl", "get", kind, "-n", fleet, "-o", "name"))
}

// available returns an error unless the cluster has this number of machines and all are available.
func available(t *testing.T, plane own, cluster string, want int) error {
	t.Helper()
	out := plane.must(t, "kubectl", "get", "machines", "-n", fleet, "-l", "cluster.x-k8s.io/cluster-name="+cluster, "-o",
		`jsonpath={range .items[*]}{.metadata.name}{" "}{.status.conditions[?(@.type=="Available")].status}{"\n"}{end}`)
	if strings.Count(out, " True\n") != want || strings.Count(out, "\n") != want {
		return fmt.Errorf("want %d available machines, got:\n%s", want, out)
	}
	return nil
}

// inUse returns an error unless the plane has this number of claimed hosts, and all of them report to it.
func inUse(t *testing.T, plane own, want int) error {
	t.Helper()
	all := rows(t, plane)
	for _, h := range all {
		if h.State != "InUse" {
			return fmt.Errorf("host %+v", h)
		}
	}
	if len(all) != want {
		return fmt.Errorf("%d hosts", len(all))
	}
	return nil
}

// nodes returns each node with a value that changes when the node is recreated or restarted.
func (y *yard) nodes(t *testing.T, plane own, cluster string) []string {
	t.Helper()
	client, server := y.client(t, plane, cluster)
	response, err := client.Get(server + "/api/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID string }
			Status   struct{ NodeInfo struct{ BootID string } }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the nodes of cluster %s: %s %v", cluster, response.Status, err)
	}
	var nodes []string
	for _, n := range list.Items {
		nodes = append(nodes, strings.Join([]string{n.Metadata.Name, n.Metadata.UID, n.Status.NodeInfo.BootID}, " "))
	}
	slices.Sort(nodes)
	return nodes
}
