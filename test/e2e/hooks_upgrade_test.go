package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/templates"
)

// upgradeLimit bounds each step of an upgrade, on a machine that has other work.
const upgradeLimit = 6 * time.Minute

// twoVersions gives the Kubernetes releases to upgrade from and to, and skips the test if there is no bundle of the first.
func twoVersions(t *testing.T) (from, to string) {
	t.Helper()
	from, to = versionIn(t, "PREVIOUS_VERSION"), versionIn(t, "DEFAULT_VERSION")
	if _, err := os.Stat(filepath.Join("..", "..", "bin", "bundles", from, "capstan-kube")); err != nil {
		t.Skipf("there is no bundle for %s: make kube-previous builds it", from)
	}
	return from, to
}

// versionIn reads a Kubernetes version from a file in kube/.
func versionIn(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "kube", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// takesLong skips a test that there is no time for.
func takesLong(t *testing.T) {
	t.Helper()
	if os.Getenv(long) == "" {
		t.Skip("make test-long runs this test")
	}
}

// hookedClass is the local ClusterClass with other names, and something in the bootstrap configuration of each role that tells its generations apart.
func hookedClass(controlPlane, workers string) string {
	return strings.NewReplacer(
		"capstan-local-control-plane", "hooked-control-plane-"+controlPlane, "capstan-local-worker", "hooked-worker-"+workers, "capstan-local", "hooked",
		"      kubeadmConfigSpec:\n", "      kubeadmConfigSpec:\n        "+motd(controlPlane)+"\n",
		"    spec:\n      joinConfiguration:\n", "    spec:\n      "+motd(workers)+"\n      joinConfiguration:\n",
	).Replace(string(templates.Local))
}

// versionsOf gives the Kubernetes version and the generation of the class that each role has, as "control plane v1.36.3 b".
func versionsOf(t *testing.T, cluster string) []string {
	t.Helper()
	all := parts(t, cluster)
	var found []string
	for _, p := range all {
		switch p.Kind {
		case "KubeadmControlPlane":
			content := ""
			for _, f := range p.Spec.KubeadmConfigSpec.Files {
				content += f.Content
			}
			found = append(found, "control plane "+p.version()+" "+content)
		case "MachineDeployment":
			content := must(t, "kubectl", "get", "kubeadmconfigtemplate", p.Spec.Template.Spec.Bootstrap.ConfigRef.Name, "-o", "jsonpath={.spec.template.spec.files[0].content}")
			found = append(found, p.Metadata.Labels["topology.cluster.x-k8s.io/deployment-name"]+" "+p.version()+" "+content)
		}
	}
	slices.Sort(found)
	return found
}

// held waits until an extension that blocks a hook was asked.
func (a *actor) held(cluster, hook, message string) {
	a.t.Helper()
	within(a.t, upgradeLimit, hook+" is called", func() error {
		if len(a.calls(one, hook)) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	condition(a.t, cluster, hook, message)
}

// The hooks around an upgrade of a real cluster: the moment of each, that it blocks and what waits meanwhile, what is in the requests, who is called again, what
// the Cluster says. Changes of replicas and templates, and a new MachineDeployment, wait for the version; in the end each Machine was made once (LH-01,
// LH-11 to LH-23, LH-28, LH-29). An extension and the plane fail in the middle; the hooks that come after something has happened are not lost (LH-27).
func TestHooksOfAnUpgrade(t *testing.T) {
	takesLong(t)
	const name = "hooked"
	from, to := twoVersions(t)
	a := newActor(t)
	t.Cleanup(func() {
		a.remove(name)
		if out, err := command(context.Background(), "kubectl", "delete", "clusterclass", "hooked", "--ignore-not-found").CombinedOutput(); err != nil {
			t.Logf("%v\n%s", err, out)
		}
	})
	apply(t, hookedClass("a", "a"))
	must(t, "cluster", "create", name, "--class", "hooked", "--workers", "1", "--kubernetes-version", from)
	made := machinesOf(t, name)
	upgrades := []string{"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade", "BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade"}
	for _, hook := range upgrades {
		a.tell(one, hook, line{blocks, "not yet", time.Second})
	}
	// stays holds a hook in all ways, and compares the topology before and after.
	stays := func(hook string) {
		t.Helper()
		a.held(name, hook, "not yet")
		before := shape(t, name)
		start := time.Now()
		a.rounds(name, hook)
		sameShape(t, name, "while "+hook+" blocks", before)
		t.Logf("%s: %s, %v", hook, time.Since(start).Round(100*time.Millisecond), versionsOf(t, name))
	}
	refuses := func(when string) {
		t.Helper()
		_, stderr, err := try(t, "kubectl", "patch", "cluster", name, "--type", "merge", "-p", `{"spec":{"topology":{"version":"`+to+`0"}}}`)
		if err == nil || !strings.Contains(stderr, "version") {
			t.Errorf("%s another version was not refused: %v %s", when, err, stderr)
		}
	}
	versions := func(when string, want ...string) {
		t.Helper()
		if got := versionsOf(t, name); !slices.Equal(got, want) {
			t.Errorf("%s the versions are %q, want %q", when, got, want)
		}
	}

	must(t, "cluster", "upgrade", name, "--kubernetes-version", to, "--wait=false")
	a.held(name, "BeforeClusterUpgrade", "not yet")
	before := shape(t, name)
	must(t, "kubectl", "patch", "cluster", name, "--type", "json", "-p", `[
		{"op":"replace","path":"/spec/topology/controlPlane/replicas","value":3},
		{"op":"replace","path":"/spec/topology/workers/machineDeployments/0/replicas","value":2},
		{"op":"add","path":"/spec/topology/workers/machineDeployments/-","value":{"class":"default-worker","name":"md-1","replicas":1}}]`)
	apply(t, hookedClass("b", "b"))
	stays("BeforeClusterUpgrade")
	sameShape(t, name, "after changes while BeforeClusterUpgrade blocks", before)
	versions("while BeforeClusterUpgrade blocks", "control plane "+from+" a", "md-0 "+from+" a")

	a.tell(one, "BeforeClusterUpgrade", line{})
	stays("BeforeControlPlaneUpgrade")
	a.disasters(t, name, "BeforeControlPlaneUpgrade", killed, hanging, noCertificate, redeployed, planeKilled)
	sameShape(t, name, "while BeforeControlPlaneUpgrade blocks", before)
	refuses("before the control plane is upgraded")

	a.tell(one, "BeforeControlPlaneUpgrade", line{})
	a.held(name, "AfterControlPlaneUpgrade", "not yet")
	versions("after the control plane is upgraded", "control plane "+to+" b", "md-0 "+from+" a")
	if got := made(); got["control plane "+to] != 3 || len(got) != 3 {
		t.Errorf("after the control plane is upgraded, these Machines were made: %v", got)
	}
	apply(t, hookedClass("b", "c"))
	stays("AfterControlPlaneUpgrade")
	if err := kill("plane", "", false); err != nil {
		t.Fatal(err)
	}
	must(t, "up")
	a.asks(one, "AfterControlPlaneUpgrade", 1)

	a.tell(one, "AfterControlPlaneUpgrade", line{})
	stays("BeforeWorkersUpgrade")
	versions("before workers are upgraded", "control plane "+to+" b", "md-0 "+from+" a")

	a.tell(one, "BeforeWorkersUpgrade", line{})
	a.held(name, "AfterWorkersUpgrade", "not yet")
	refuses("before the upgrade is over")
	stays("AfterWorkersUpgrade")
	versions("after workers are upgraded", "control plane "+to+" b", "md-0 "+to+" c", "md-1 "+to+" c")

	a.tell(one, "AfterWorkersUpgrade", line{})
	a.held(name, "AfterClusterUpgrade", "not yet")
	refuses("while AfterClusterUpgrade blocks")
	want := map[string]int{"control plane " + from: 1, "control plane " + to: 3, "md-0 " + from: 1, "md-0 " + to: 2, "md-1 " + to: 1}
	if got := made(); !maps.Equal(got, want) {
		t.Errorf("these Machines were made: %v, want %v", got, want)
	}
	stays("AfterClusterUpgrade")
	a.tell(one, "AfterClusterUpgrade", line{})
	eventually(t, "the upgrade is over", func() error {
		pending := must(t, "kubectl", "get", "cluster", name, "-o", `jsonpath={.metadata.annotations.runtime\.cluster\.x-k8s\.io/pending-hooks}`)
		if pending != "" {
			return fmt.Errorf("pending are %s", pending)
		}
		return nil
	})
	converges(t, name, 6)
	readyNodes(t, name)
	checkRequests(t, a, name, from, to)
	if order := moments(t, name, one, two); !slices.Equal(order, append([]string{"BeforeClusterCreate", "AfterControlPlaneInitialized"}, upgrades...)) {
		t.Errorf("the hooks were called in the order %v", order)
	}
	if got := made(); !maps.Equal(got, want) {
		t.Errorf("these Machines were made: %v, want %v", got, want)
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}
