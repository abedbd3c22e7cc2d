package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// blow is one SIGKILL at a named point of an operation.
type blow struct {
	point  string // a key of points
	victim string // name of a process
	onHost bool   // kill the process of that name on the point's host, not the plane's
}

// deletionHasBegun is a point at which the host may already be off.
const deletionHasBegun = "deletion has begun"

// points are moments in the life of a cluster. Each function returns an error until the point is reached, and returns
// the host if the point is about one.
var points = map[string]func(t *testing.T, cluster string) (host string, err error){
	"the create hook was called": func(t *testing.T, cluster string) (string, error) {
		if out := must(t, "hook", "timeline", cluster); !strings.Contains(out, "BeforeClusterCreate") {
			return "", fmt.Errorf("timeline:\n%s", out)
		}
		return "", nil
	},
	"a host is claimed": func(t *testing.T, cluster string) (string, error) {
		rows := claimed(t, cluster)
		if len(rows) == 0 {
			return "", errors.New("no host is claimed")
		}
		return rows[0].Name, nil
	},
	"a host bootstraps": bootstrapping,
	"the control plane is initialized": func(t *testing.T, cluster string) (string, error) {
		out := must(t, "kubectl", "get", "cluster", cluster, "-o",
			"jsonpath={.status.initialization.controlPlaneInitialized}")
		if out != "true" {
			return "", fmt.Errorf("controlPlaneInitialized is %q", out)
		}
		return "", nil
	},
	// Deletion is quick, so this point is the moment when deletion begins. If the cluster still has a host then, the
	// function returns that host.
	deletionHasBegun: func(t *testing.T, cluster string) (string, error) {
		out, _, err := try(t, "kubectl", "get", "cluster", cluster, "-o", "jsonpath={.metadata.deletionTimestamp}")
		if err == nil && out == "" {
			return "", errors.New("the cluster is not being deleted")
		}
		if rows := claimed(t, cluster); len(rows) > 0 {
			return rows[0].Name, nil
		}
		return "", nil
	},
	"a machine is being deleted": func(t *testing.T, cluster string) (string, error) {
		going := ""
		for _, m := range decode[objectList](t, "kubectl", "get", "machines").Items {
			if m.Metadata.DeletionTimestamp != "" && m.Metadata.Labels["cluster.x-k8s.io/cluster-name"] == cluster {
				going = m.Metadata.Name
			}
		}
		for _, h := range claimed(t, cluster) {
			if h.Machine == going {
				return h.Name, nil
			}
		}
		return "", errors.New("no machine with a host is being deleted")
	},
}

// bootstrapping watches hosts until a host of the cluster is in phase Bootstrapping. Repeated lists could miss this
// phase, because on a busy machine a list may take longer than the phase.
func bootstrapping(t *testing.T, cluster string) (host string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := command(ctx, "kubectl", "get", "capstanhosts", "--watch", "-o",
		`jsonpath={.metadata.name} {.status.phase} {.spec.claim.cluster}{"\n"}`)
	out, err := watch.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := watch.Start(); err != nil {
		return "", err
	}
	defer func() {
		cancel()
		_ = watch.Wait() // it was killed, or the API server is gone
	}()
	var seen []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		seen = append(seen, lines.Text())
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[1] == "Bootstrapping" && f[2] == cluster {
			return f[0], nil
		}
	}
	return "", fmt.Errorf("no host of %s bootstraps; seen:\n%s", cluster, strings.Join(seen, "\n"))
}

// strike waits for the blow's point, kills the victim, and restarts what has stopped, as a user would.
func (b blow) strike(t *testing.T, cluster string) {
	t.Helper()
	host := ""
	promptly(t, b.point, func() (err error) {
		host, err = points[b.point](t, cluster)
		return err
	})
	err := kill(b.victim, host, b.onHost)
	switch {
	case err != nil && b.onHost && b.point == deletionHasBegun: // the host may be off by now
		t.Logf("%s: its hosts were released before anything could be killed on them: %v", b.point, err)
	case err != nil:
		t.Fatal(err)
	}
	must(t, "up")
}

// converges waits until a cluster has this number of nodes and all are Ready, each on its own host.
func converges(t *testing.T, cluster string, nodes int) {
	t.Helper()
	eventually(t, "all nodes are Ready", func() error {
		out, stderr, err := try(t, "kubectl", "--cluster", cluster, "get", "nodes", "--no-headers")
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		if ready, all := strings.Count(out, " Ready "), strings.Count(out, "\n"); ready != nodes || all != nodes {
			return fmt.Errorf("%d of %d nodes are Ready, want %d:\n%s", ready, all, nodes, out)
		}
		return nil
	})
	eventually(t, "each node has its own host", func() error {
		if rows := claimed(t, cluster); len(rows) != nodes {
			return fmt.Errorf("%d hosts are claimed, want %d: %v", len(rows), nodes, rows)
		}
		return nil
	})
}

// vanishes waits until a cluster is gone and its hosts are back in the pool.
func vanishes(t *testing.T, cluster string) {
	t.Helper()
	eventually(t, "the cluster is gone", func() error {
		if out := must(t, "kubectl", "get", "clusters,machines,capstanmachines,capstanclusters", "-o",
			"name"); strings.Contains(out, "/"+cluster) {
			return fmt.Errorf("these objects still exist: %s", out)
		}
		return nil
	})
	eventually(t, "the cluster's hosts are off", func() error {
		for _, h := range decode[[]hostRow](t, "host", "list") {
			if h.Cluster == cluster || (h.Cluster == "" && h.State != "Off") {
				return fmt.Errorf("host %v", h)
			}
		}
		return nil
	})
}

// TestKills kills each process in the middle of a worker's bootstrap, and checks that everything converges: the
// worker's node becomes Ready, no host is claimed twice, and no claim is lost. If long tests are off, TestKills,
// TestKillsInALife and TestKillsDuringUp run only some of their cases, which together kill each process at least once.
func TestKills(t *testing.T) {
	const name = "kills"
	must(t, "cluster", "create", name, "--workers", "0")
	workers := 0
	for _, b := range []blow{
		{victim: "plane"},
		{victim: "etcd"},
		{victim: "kube-apiserver"},
		{victim: "capstan-extension"},
		{victim: "capstan-agent", onHost: true},
		{victim: "dock init", onHost: true},
		{victim: "dock run"},
		{victim: "dock inside"},
	} {
		b.point = "a host bootstraps"
		t.Run(b.victim, func(t *testing.T) {
			// TestKillsInALife and TestKillsDuringUp kill the others in each run. A cluster's hosts may be released before
			// "dock init" is killed in TestKillsInALife.
			takesLongBut(t, b.victim, "plane", "capstan-extension", "dock init")
			workers++
			must(t, "cluster", "scale", name, "--workers", strconv.Itoa(workers), "--wait=false")
			b.strike(t, name)
			converges(t, name, workers+1)
		})
		if t.Failed() {
			break
		}
	}
	t.Run("kubeadm", func(t *testing.T) { testKilledJoin(t, name, workers+1) })
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}

// TestKillsInALife kills processes while a cluster is created, and again while it is deleted.
func TestKillsInALife(t *testing.T) {
	for name, life := range map[string]struct{ create, remove []blow }{
		"before-hosts": {
			create: []blow{{"the create hook was called", "capstan-extension", false}, {"a host is claimed", "plane", false}},
			remove: []blow{{deletionHasBegun, "plane", false}},
		},
		"bootstrap": {
			create: []blow{{"a host bootstraps", "capstan-agent", true}, {"the control plane is initialized", "etcd", false}},
			remove: []blow{{deletionHasBegun, "dock run", false}},
		},
		"host": {
			create: []blow{{"a host bootstraps", "dock init", true},
				{"the control plane is initialized", "kube-apiserver", false}},
			remove: []blow{{deletionHasBegun, "capstan-agent", true}},
		},
		"all-at-once": {
			create: []blow{{"a host is claimed", "dock run", false}, {"a host bootstraps", "dock inside", false}},
			remove: []blow{{deletionHasBegun, "dock init", true}},
		},
		"store": {
			create: []blow{{"a host is claimed", "kube-apiserver", false}, {"a host bootstraps", "etcd", false}},
			remove: []blow{{deletionHasBegun, "etcd", false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			takesLongBut(t, name, "bootstrap", "all-at-once")
			must(t, "cluster", "create", name, "--workers", "0", "--wait=false")
			for _, b := range life.create {
				b.strike(t, name)
			}
			converges(t, name, 1)
			must(t, "cluster", "delete", name, "--wait=false")
			for _, b := range life.remove {
				b.strike(t, name)
			}
			vanishes(t, name)
		})
	}
}

// TestKillsWhileTheControlPlaneScales kills processes while etcd members come and go.
func TestKillsWhileTheControlPlaneScales(t *testing.T) {
	long.Need(t)
	const name = "members"
	must(t, "cluster", "create", name, "--workers", "0")
	must(t, "cluster", "scale", name, "--control-plane", "3", "--wait=false")
	blow{"a host bootstraps", "capstan-agent", true}.strike(t, name)
	blow{"a host bootstraps", "plane", false}.strike(t, name)
	converges(t, name, 3)
	members(t, name, 3)
	must(t, "cluster", "scale", name, "--control-plane", "1", "--wait=false")
	blow{"a machine is being deleted", "plane", false}.strike(t, name)
	converges(t, name, 1)
	members(t, name, 1)
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}

// members waits until a cluster has that many etcd members, and its control plane finds them healthy. To do so, the
// control plane compares etcd's own list of members with the machines.
func members(t *testing.T, cluster string, want int) {
	t.Helper()
	eventually(t, "etcd has its members, and they are healthy", func() error {
		pods, stderr, err := try(t, "kubectl", "--cluster", cluster, "-n", "kube-system", "get", "pods", "-l",
			"component=etcd", "-o", "name")
		if n := strings.Count(pods, "\n"); err != nil || n != want {
			return fmt.Errorf("there are %d etcd pods, want %d %s", n, want, stderr)
		}
		healthy := must(t, "kubectl", "get", "kubeadmcontrolplanes", "-l", "cluster.x-k8s.io/cluster-name="+cluster,
			"-o", `jsonpath={.items[*].status.conditions[?(@.type=="EtcdClusterHealthy")].status}`)
		if healthy != "True" {
			return fmt.Errorf("EtcdClusterHealthy is %q", healthy)
		}
		return nil
	})
}

// TestKillsDuringUp kills each process as soon as a start has launched it, and also the start itself. The next start
// finds everything that existed before.
func TestKillsDuringUp(t *testing.T) {
	const name = "kept"
	must(t, "cluster", "create", name, "--workers", "0")
	for _, victim := range []string{"etcd", "kube-apiserver", "plane", "capstan-extension", "dock run",
		"dock inside", "up"} {
		t.Run(victim, func(t *testing.T) {
			takesLongBut(t, victim, "kube-apiserver", "dock inside", "up")
			must(t, "down")
			start := command(t.Context(), "up")
			start.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := start.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- start.Wait() }()
			if victim == "up" {
				promptly(t, "a process of the dock exists", func() error {
					if len(processes()) == 0 {
						return errors.New("no process yet")
					}
					return nil
				})
				if err := start.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			} else {
				killWhenThere(t, victim)
			}
			// up may fail or succeed, but it must exit.
			select {
			case err := <-ended:
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Errorf("up: %v", err)
				}
			case <-time.After(3 * time.Minute):
				_ = start.Process.Kill()
				t.Fatal("up has not exited after 3 minutes")
			}
			must(t, "up")
			converges(t, name, 1)
		})
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}

// TestUpOutlivesItsDock kills the dock while "up" waits for the plane: the same "up" begins again, and succeeds.
func TestUpOutlivesItsDock(t *testing.T) {
	must(t, "down")
	start := command(t.Context(), "up")
	var out bytes.Buffer
	start.Stderr = &out
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	promptly(t, "the plane has started", func() error {
		if !slices.ContainsFunc(processes(), func(p process) bool { return p.name() == "plane" }) {
			return errors.New("no process of the plane yet")
		}
		return nil
	})
	if err := kill("dock run", "", false); err != nil {
		t.Fatal(err)
	}
	if err := start.Wait(); err != nil || !strings.Contains(out.String(), "restarting it") {
		t.Fatalf("up: %v\n%s", err, out.String())
	}
	must(t, "kubectl", "get", "clusters")
}

// killWhenThere waits until a process of the plane or the dock exists and kills it at once.
func killWhenThere(t *testing.T, name string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for _, p := range processes() {
			if p.name() == name && p.host == "" {
				if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
					t.Fatalf("killing %s (%d): %v", name, p.pid, err)
				}
				return
			}
		}
	}
	t.Fatalf("%s did not start within a minute", name)
}

// TestARebootBringsItsNodeBack uses the command "capstan host reboot" on each host of a running cluster. The Node of
// the host must be Ready again, with another boot ID.
func TestARebootBringsItsNodeBack(t *testing.T) {
	const name = "reboots"
	must(t, "cluster", "create", name, "--workers", "1")
	for _, h := range claimed(t, name) {
		bootID := func() string {
			out, _, _ := try(t, "kubectl", "--cluster", name, "get", "nodes", "-o",
				`jsonpath={range .items[*]}{.spec.providerID} {.status.nodeInfo.bootID}{"\n"}{end}`)
			for line := range strings.Lines(out) {
				if id, boot, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains(id, "/"+h.Name+"/") {
					return boot
				}
			}
			return ""
		}
		before := bootID()
		must(t, "host", "reboot", h.Name)
		eventually(t, "the node of "+h.Name+" has booted again", func() error {
			if now := bootID(); now == "" || now == before {
				return fmt.Errorf("boot ID is %q, was %q", now, before)
			}
			return nil
		})
		converges(t, name, 2)
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}
