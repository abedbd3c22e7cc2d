package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/test/long"
)

// upgradeLimit limits each step of an upgrade. It is long only because the machine may be busy: with a load of 50 on
// two processors, the rollout of three control planes took four and a half minutes.
const upgradeLimit = 12 * time.Minute

// upgradeHooks are the hooks around an upgrade over one minor release, in their order.
var upgradeHooks = []string{
	"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
	"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade",
}

// held waits until an extension that blocks a hook was called.
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

// upgrade is a real cluster on its way from the previous Kubernetes minor to the current one. Extension one blocks each
// hook until the test lets it pass.
type upgrade struct {
	*testing.T
	a              *actor
	name, from, to string
	replicas       int                   // of the control plane after the upgrade
	machines       func() map[string]int // all that were created so far, by role and version
	controlPlanes  func() []string       // all generations so far
	workerGroups   func() []string       // all generations so far, of all MachineDeployments
}

// newUpgrade creates a cluster of a control plane and a worker in the previous version.
func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{T: t, name: "renewed", replicas: 1}
	if long.Enabled() {
		u.replicas = 3
	}
	u.from, u.to = twoVersions(t)
	u.a = newActor(t)
	t.Cleanup(func() {
		u.a.remove(u.name)
		if out, err := command(context.Background(), "kubectl", "delete", "clusterclass", "hooked",
			"--ignore-not-found").CombinedOutput(); err != nil {
			t.Logf("%v\n%s", err, out)
		}
	})
	apply(t, hookedClass("a", "a"))
	must(t, "cluster", "create", u.name, "--class", "hooked", "--workers", "1", "--kubernetes-version", u.from)
	u.machines = machinesOf(t, u.name)
	u.controlPlanes = generationsOf(t, u.name, "kubeadmcontrolplanes")
	u.workerGroups = generationsOf(t, u.name, "machinedeployments")
	for _, hook := range upgradeHooks {
		u.a.tell(one, hook, line{blocks, "not yet", time.Second})
	}
	return u
}

// passes makes extension one let a hook pass.
func (u *upgrade) passes(hook string) { u.a.tell(one, hook, line{}) }

// stays checks that a hook blocks: the extension is called repeatedly, and the topology does not change. If long tests
// are enabled, the hook blocks in every way.
func (u *upgrade) stays(hook string, before []string) {
	u.Helper()
	start := time.Now()
	if long.Enabled() {
		u.a.rounds(u.name, hook)
	} else {
		u.a.asks(one, hook, 2)
	}
	sameShape(u.T, u.name, "while "+hook+" blocks", before)
	u.Logf("%s: %s, %v", hook, time.Since(start).Round(100*time.Millisecond), versionsOf(u.T, u.name))
}

// versions compares the versions and generations of the topology.
func (u *upgrade) versions(when string, want ...string) {
	u.Helper()
	if got := versionsOf(u.T, u.name); !slices.Equal(got, want) {
		u.Errorf("%s the versions are %q, want %q", when, got, want)
	}
}

// uncalled checks that these hooks have not been called yet.
func (u *upgrade) uncalled(when string, hooks ...string) {
	u.Helper()
	for _, hook := range hooks {
		if n := len(u.a.calls(one, hook)); n > 0 {
			u.Errorf("%s there were %d calls of %s", when, n, hook)
		}
	}
}

// next tries to set the version of a later upgrade, as a dry run: it changes nothing.
func (u *upgrade) next() error {
	_, stderr, err := try(u.T, "kubectl", "patch", "cluster", u.name, "--dry-run=server",
		"--type", "merge", "-p", u.topology(u.to+"0"))
	if err != nil {
		return fmt.Errorf("%w %s", err, stderr)
	}
	return nil
}

func (u *upgrade) topology(version string) string {
	return `{"spec":{"topology":{"version":"` + version + `"}}}`
}

// refuses checks that a later upgrade is refused because this one is not finished.
func (u *upgrade) refuses(when, why string) {
	u.Helper()
	err := u.next()
	if said := fmt.Sprint(err); !strings.Contains(said, "version cannot be changed") || !strings.Contains(said, why) {
		u.Errorf("%s a later version was not refused with %q: %v", when, why, err)
	}
}

// accepts checks that a later upgrade would be accepted.
func (u *upgrade) accepts(when string) {
	u.Helper()
	if err := u.next(); err != nil {
		u.Errorf("%s a later version was refused: %v", when, err)
	}
}

// TestHooksOfAnUpgrade checks the hooks around an upgrade of a real cluster: when each is called, that it blocks, what
// waits meanwhile, the content of requests and answers, and what the Cluster says. Changes of replicas and templates,
// and a new MachineDeployment, wait for the new version. In the end, each Machine must have been created only once. If
// long tests are enabled, the control plane also grows from one to three Machines, extensions and the plane fail in the
// middle, and hooks block in every way.
func TestHooksOfAnUpgrade(t *testing.T) {
	u := newUpgrade(t)
	for _, step := range []func(){
		u.beforeTheCluster, u.beforeTheControlPlane, u.afterTheControlPlane,
		u.beforeTheWorkers, u.whileWorkersRoll, u.afterTheWorkers, u.afterTheCluster, u.over,
	} {
		if step(); t.Failed() {
			t.FailNow() // the following steps depend on it
		}
	}
}

// beforeTheCluster: while BeforeClusterUpgrade blocks, nothing changes, whatever is requested.
func (u *upgrade) beforeTheCluster() {
	const hook = "BeforeClusterUpgrade"
	u.accepts("before the upgrade")
	u.uncalled("before the upgrade", upgradeHooks...)
	must(u.T, "cluster", "upgrade", u.name, "--kubernetes-version", u.to, "--wait=false")
	u.a.held(u.name, hook, "not yet")
	before := shape(u.T, u.name)
	must(u.T, "kubectl", "patch", "cluster", u.name, "--type", "json", "-p", `[
		{"op":"replace","path":"/spec/topology/controlPlane/replicas","value":`+strconv.Itoa(u.replicas)+`},
		{"op":"replace","path":"/spec/topology/workers/machineDeployments/0/replicas","value":2},
		{"op":"add","path":"/spec/topology/workers/machineDeployments/-","value":{"class":"default-worker","name":"md-1","replicas":1}}]`)
	apply(u.T, hookedClass("b", "b"))
	u.stays(hook, before)
	u.versions("while BeforeClusterUpgrade blocks", "control plane "+u.from+" a", "md-0 "+u.from+" a")
	u.Attr("rule", "LH-12")
	u.refuses("while BeforeClusterUpgrade blocks", "was not propagated to control plane yet")
	u.uncalled("while BeforeClusterUpgrade blocks", upgradeHooks[1:]...)
	u.passes(hook)
	u.a.held(u.name, "BeforeControlPlaneUpgrade", "not yet")
	sameShape(u.T, u.name, "after BeforeClusterUpgrade", before)
	u.Attr("rule", "LH-11")
}

// beforeTheControlPlane: while BeforeControlPlaneUpgrade blocks, still nothing changes, whatever happens to the
// extension and the plane.
func (u *upgrade) beforeTheControlPlane() {
	const hook = "BeforeControlPlaneUpgrade"
	before := shape(u.T, u.name)
	u.stays(hook, before)
	if long.Enabled() {
		u.a.disasters(u.T, u.name, hook, killed, hanging, noCertificate, redeployed, planeKilled)
		sameShape(u.T, u.name, "while BeforeControlPlaneUpgrade blocks", before)
	}
	u.refuses("before the control plane is upgraded", "AfterClusterUpgrade")
	u.uncalled("before the control plane is upgraded", upgradeHooks[2:]...)
	u.passes(hook)
}

// afterTheControlPlane: when AfterControlPlaneUpgrade is called, one rollout has given the control plane everything
// that was requested, and workers wait.
func (u *upgrade) afterTheControlPlane() {
	const hook = "AfterControlPlaneUpgrade"
	u.a.held(u.name, hook, "not yet")
	before := shape(u.T, u.name)
	u.versions("after the control plane is upgraded", "control plane "+u.to+" b", "md-0 "+u.from+" a")
	for _, p := range parts(u.T, u.name) {
		if p.Kind == "Machine" && p.role() == "control plane" && p.version() != u.to {
			u.Errorf("%s is called, but Machine %s of the control plane still has %s",
				hook, p.Metadata.Name, p.version())
		}
	}
	u.Attr("rule", "LH-17")
	if got := u.machines(); got["control plane "+u.to] != u.replicas || len(got) != 3 {
		u.Errorf("after the control plane is upgraded, these Machines were made: %v; want %d of the new version",
			got, u.replicas)
	}
	apply(u.T, hookedClass("b", "c"))
	u.stays(hook, before)
	u.uncalled("after the control plane is upgraded", upgradeHooks[3:]...)
	u.Attr("rule", "LH-18")
	if long.Enabled() {
		if err := kill("plane", "", false); err != nil {
			u.Fatal(err)
		}
		must(u.T, "up")
		u.a.asks(one, hook, 1)
	}
	u.passes(hook)
}

// beforeTheWorkers: while BeforeWorkersUpgrade blocks, workers still wait.
func (u *upgrade) beforeTheWorkers() {
	const hook = "BeforeWorkersUpgrade"
	u.a.held(u.name, hook, "not yet")
	u.stays(hook, shape(u.T, u.name))
	u.versions("before workers are upgraded", "control plane "+u.to+" b", "md-0 "+u.from+" a")
	u.uncalled("before workers are upgraded", upgradeHooks[4:]...)
}

// whileWorkersRoll: the upgrade is not finished while an old worker still exists. Here the test delays the drain of an
// old worker. Meanwhile, Cluster API refuses the version of a later upgrade. If an annotation makes Cluster API accept
// that version, the later upgrade still waits for this one.
func (u *upgrade) whileWorkersRoll() {
	const drain = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/test"
	const unsafe = clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation
	old := ""
	for _, p := range parts(u.T, u.name) {
		if p.Kind == "Machine" && p.role() == "md-0" {
			old = p.Metadata.Name
		}
	}
	must(u.T, "kubectl", "annotate", "machine", old, drain+"=wait")
	u.passes("BeforeWorkersUpgrade")
	within(u.T, upgradeLimit, "the old worker is being deleted, and all new workers exist", func() error {
		machines := u.machines()
		if machines["md-0 "+u.to] < 2 || machines["md-1 "+u.to] < 1 {
			return fmt.Errorf("the Machines so far are %v", machines)
		}
		if at := must(u.T, "kubectl", "get", "machine", old, "-o", "jsonpath={.metadata.deletionTimestamp}"); at == "" {
			return errors.New("the old worker is not being deleted")
		}
		return nil
	})
	u.refuses("while workers roll", "AfterClusterUpgrade")
	asked := func() int {
		return len(u.a.calls(one, "BeforeClusterUpgrade")) + len(u.a.calls(one, "BeforeControlPlaneUpgrade"))
	}
	calls := asked()
	before := shape(u.T, u.name)
	must(u.T, "kubectl", "annotate", "cluster", u.name, unsafe+"=")
	must(u.T, "kubectl", "patch", "cluster", u.name, "--type", "merge", "-p", u.topology(u.to+"0"))
	condition(u.T, u.name, u.to+"0") // the topology knows the version
	sameShape(u.T, u.name, "while workers roll, and another version is requested,", before)
	if now := asked(); now != calls {
		u.Errorf("while workers roll, there were %d calls for the next upgrade", now-calls)
	}
	must(u.T, "kubectl", "patch", "cluster", u.name, "--type", "merge", "-p", u.topology(u.to))
	must(u.T, "kubectl", "annotate", "cluster", u.name, unsafe+"-")
	u.Attr("rule", "LH-15")
	u.uncalled("while workers roll", upgradeHooks[4:]...)
	must(u.T, "kubectl", "annotate", "machine", old, drain+"-")
}

// afterTheWorkers: when AfterWorkersUpgrade is called, everything is new, but the upgrade is not finished.
func (u *upgrade) afterTheWorkers() {
	const hook = "AfterWorkersUpgrade"
	u.a.held(u.name, hook, "not yet")
	u.refuses("before the upgrade is over", "AfterClusterUpgrade")
	u.stays(hook, shape(u.T, u.name))
	u.versions("after workers are upgraded", "control plane "+u.to+" b", "md-0 "+u.to+" c", "md-1 "+u.to+" c")
	u.uncalled("after workers are upgraded", upgradeHooks[5:]...)
	u.passes(hook)
}

// afterTheCluster: when AfterClusterUpgrade is called, everything is new, and the control plane and each
// MachineDeployment were rolled out only once. Now only a later upgrade waits.
func (u *upgrade) afterTheCluster() {
	const hook = "AfterClusterUpgrade"
	u.a.held(u.name, hook, "not yet")
	for _, p := range parts(u.T, u.name) {
		if p.Kind == "Machine" && p.version() != u.to {
			u.Errorf("%s is called, but Machine %s still has %s", hook, p.Metadata.Name, p.version())
		}
	}
	u.Attr("rule", "LH-21")
	u.refuses("while AfterClusterUpgrade blocks", "AfterClusterUpgrade")
	u.onceEach()
	want := []string{"control plane " + u.from + " a", "control plane " + u.to + " b"}
	if got := u.controlPlanes(); !slices.Equal(got, want) {
		u.Errorf("the control plane had the generations %q, want %q", got, want)
	}
	if got := u.workerGroups(); len(got) != 3 { // md-0 before and after, md-1
		u.Errorf("MachineDeployments had the generations %q, want 3", got)
	}
	u.Attr("rule", "LH-14")
	u.stays(hook, shape(u.T, u.name))
	u.passes(hook)
}

// onceEach checks that each Machine was created once: one rollout brought the version and everything else that was
// requested.
func (u *upgrade) onceEach() {
	u.Helper()
	want := map[string]int{
		"control plane " + u.from: 1, "control plane " + u.to: u.replicas,
		"md-0 " + u.from: 1, "md-0 " + u.to: 2, "md-1 " + u.to: 1,
	}
	if got := u.machines(); !maps.Equal(got, want) {
		u.Errorf("these Machines were made: %v, want %v", got, want)
	}
}

// over checks that the upgrade is finished, and then checks its whole course.
func (u *upgrade) over() {
	eventually(u.T, "the upgrade is over", func() error {
		pending := must(u.T, "kubectl", "get", "cluster", u.name,
			"-o", `jsonpath={.metadata.annotations.runtime\.cluster\.x-k8s\.io/pending-hooks}`)
		if pending != "" {
			return fmt.Errorf("pending hooks are %s", pending)
		}
		return nil
	})
	// The webhook that refuses another version reads a cache, which may be behind for a moment.
	eventually(u.T, "a later version is accepted after the upgrade", u.next)
	u.Attr("rule", "LH-22")
	converges(u.T, u.name, u.replicas+3) // and three workers
	readyNodes(u.T, u.name)
	u.onceEach()
	u.Attr("rule", "LH-13")
	u.Attr("rule", "LH-19")
	checkExchanges(u.T, u.a, u.name, u.from, u.to, upgradeHooks...)
	order := moments(u.T, u.name, one, two)
	want := append([]string{"BeforeClusterCreate", "AfterControlPlaneInitialized"}, upgradeHooks...)
	if !slices.Equal(order, want) {
		u.Errorf("the hooks were called in the order %v, want %v", order, want)
	}
	u.Attr("rule", "LH-28")
	u.Attr("rule", "LH-29")
	kubelets := must(u.T, "kubectl", "--cluster", u.name, "get", "nodes",
		"-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}")
	if got := strings.Fields(kubelets); !slices.Equal(got, slices.Repeat([]string{u.to}, u.replicas+3)) {
		u.Errorf("kubelets are %v, want %d of %s", got, u.replicas+3, u.to)
	}
	must(u.T, "cluster", "delete", u.name)
	vanishes(u.T, u.name)
}
