package provider

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// schedules is how many random schedules the test runs; CAPSTAN_TEST_EVERY makes it ten times as many.
var schedules uint64 = 40

// fence is a world of computers in which everything can fail: the network in one or both directions, agents, the
// provider, and the plane, which is restored from a backup. People delete machines, give up hosts, accept hosts as
// clean, and register computers again.
type fence struct {
	*world
	computers []*computer
	random    *rand.Rand
	said      []string // what happened
	made      int      // how many machines and hosts were created
	claims    map[string]string
	backup    []client.Object
	restored  bool
}

// TestNoTwoOwners checks that whatever happens, a computer never runs two machines, a machine never runs on two
// computers, and a host with remains of a machine is never claimed for another. In the end everything settles, and all
// computers are free and run nothing.
func TestNoTwoOwners(t *testing.T) {
	n := schedules
	if os.Getenv("CAPSTAN_TEST_EVERY") != "" {
		n *= 10
	}
	for seed := range n {
		f := newFence(t, seed)
		for range 80 {
			f.disturb()
			f.turn()
		}
		f.rest()
		if t.Failed() {
			t.Fatalf("schedule %d: %v", seed, f.said)
		}
	}
}

func newFence(t *testing.T, seed uint64) *fence {
	w := newWorld(t, join(hosts(3, ""), demo(infrav1.LoadBalancerLocal))...)
	f := &fence{world: w, random: rand.New(rand.NewPCG(seed, 1)), claims: map[string]string{}}
	for _, h := range w.allHosts() {
		f.computers = append(f.computers, &computer{
			w: w, name: h.Name, runs: map[string]bool{}, journal: map[string]*record{},
		})
	}
	f.turn()
	for _, c := range f.computers {
		c.enroll()
	}
	return f
}

// turn lets the provider, the agents and the clock advance.
func (f *fence) turn() {
	f.t.Helper()
	f.pass()
	f.core()
	for _, c := range f.computers {
		c.slow = f.random.IntN(3) == 0
		c.step()
	}
	f.invariants()
	f.owners()
	f.clock.SetTime(f.clock.Now().Add(15 * time.Second))
}

// owners checks which machines run on which computers.
func (f *fence) owners() {
	f.t.Helper()
	where := map[string]string{}
	for _, c := range f.computers {
		if len(c.runs) > 1 {
			f.t.Fatalf("computer %s runs %v: %v", c.name, c.runs, f.said)
		}
		for id := range c.runs {
			uid := id[len(id)-8:]
			if other := where[uid]; other != "" {
				f.t.Fatalf("machine %s runs on %s and %s: %v", uid, other, c.name, f.said)
			}
			where[uid] = c.name
		}
		host := &infrav1.CapstanHost{}
		if !f.exists(c.name, host) || host.Spec.Claim == nil {
			delete(f.claims, c.name)
			continue
		}
		id := host.Spec.Claim.ProviderID
		if f.claims[c.name] != id && !f.restored {
			for other := range c.runs {
				if other != id {
					f.t.Fatalf("host %s was claimed for %s while %s runs there: %v", c.name, id, other, f.said)
				}
			}
		}
		f.claims[c.name] = id
	}
}

// disturb causes one random disturbance.
func (f *fence) disturb() {
	c := f.computers[f.random.IntN(len(f.computers))]
	things := []struct {
		name string
		do   func(*computer)
	}{
		{"create", func(*computer) { f.create() }}, {"create", func(*computer) { f.create() }},
		{"delete", func(*computer) { f.delete() }},
		{"deaf", func(c *computer) { c.deaf = true }}, {"mute", func(c *computer) { c.mute = true }},
		{"cut", func(c *computer) { c.deaf, c.mute = true, true }},
		{"heal", func(c *computer) { c.deaf, c.mute = false, false }},
		{"heal", func(c *computer) { c.deaf, c.mute = false, false }},
		{"kill", func(c *computer) { c.off, c.view = true, nil }}, {"start", func(c *computer) { c.off = false }},
		{"restart the provider", func(*computer) { f.restart() }},
		{"abandon", func(c *computer) { f.annotate(c.name, infrav1.AbandonAnnotation) }},
		{"accept", func(c *computer) { f.annotate(c.name, infrav1.AcceptAnnotation) }},
		{"register anew", f.register},
		{"back up", func(*computer) { f.save() }}, {"restore", func(*computer) { f.restore() }},
		{"nothing", func(*computer) {}}, {"nothing", func(*computer) {}}, {"nothing", func(*computer) {}},
	}
	thing := things[f.random.IntN(len(things))]
	f.said = append(f.said, thing.name+" "+c.name)
	thing.do(c)
}

func (f *fence) create() {
	if len(f.allMachines()) > 4 {
		return
	}
	f.made++
	for _, o := range member(fmt.Sprintf("m%d", f.made), false) {
		f.must(f.api.Create(f.t.Context(), o))
	}
}

func (f *fence) delete() {
	if all := f.allMachines(); len(all) > 0 {
		f.must(client.IgnoreNotFound(f.api.Delete(f.t.Context(), &all[f.random.IntN(len(all))])))
	}
}

// annotate sets an annotation about the released claim of a host, or about the machine that its agent still has to
// clean up after.
func (f *fence) annotate(name, key string) {
	host := &infrav1.CapstanHost{}
	if !f.exists(name, host) {
		return
	}
	id := ""
	switch c := host.Spec.Claim; {
	case c != nil && c.Released:
		id = c.ProviderID
	case c == nil && host.Status.Agent != nil && key == infrav1.AcceptAnnotation:
		id = host.Status.Agent.Carries
	}
	if id != "" {
		edit(f.world, host, func(h *infrav1.CapstanHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, id) })
	}
}

// register deletes a host. Once the host is gone, register recreates it and, if the computer's agent runs, enrolls the
// computer.
func (f *fence) register(c *computer) {
	host := &infrav1.CapstanHost{}
	if f.exists(c.name, host) {
		f.must(f.api.Delete(f.t.Context(), host))
		return
	}
	f.made++
	for _, o := range hosts(len(f.computers), "") {
		if o.GetName() == c.name {
			o.SetUID(uid(fmt.Sprint(c.name, f.made)))
			f.must(f.api.Create(f.t.Context(), o))
		}
	}
	f.turn()
	f.visit(c)
}

// visit acts as a person at the computer, who enrolls the computer again if its agent no longer has an identity.
func (f *fence) visit(c *computer) {
	if !c.identified() {
		c.off, c.deaf, c.mute = false, false, false
		c.enroll()
	}
}

// save makes a backup of the plane.
func (f *fence) save() {
	f.backup = nil
	for _, l := range []client.ObjectList{
		&infrav1.CapstanClusterList{}, &infrav1.CapstanMachineList{}, &infrav1.CapstanHostList{}, &clusterv1.ClusterList{},
		&clusterv1.MachineList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &coordinationv1.LeaseList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		f.must(f.api.List(f.t.Context(), l))
		f.backup = append(f.backup, itemsOf(f.t, l)...)
	}
}

// restore puts the backup into another plane.
func (f *fence) restore() {
	if f.backup == nil {
		return
	}
	objects := make([]client.Object, 0, len(f.backup))
	for _, o := range f.backup {
		objects = append(objects, o.DeepCopyObject().(client.Object))
	}
	f.api, f.restored, f.provided = newAPI(f.t, objects...), true, map[types.UID]bool{}
	claimed := map[string]bool{}
	for _, h := range f.allHosts() {
		if h.Spec.Claim != nil {
			claimed[h.Spec.Claim.MachineUID] = true
		}
	}
	// Machines without a host may have got one after the backup, so they are recreated (docs/backup.md).
	for _, m := range f.allMachines() {
		if !claimed[string(m.UID)] {
			f.must(f.api.Delete(f.t.Context(), &m))
		}
	}
	f.restart()
}

// rest repairs everything, deletes all machines, and lets people do what conditions ask for.
func (f *fence) rest() {
	f.t.Helper()
	for range 60 {
		for _, m := range f.allMachines() {
			f.must(client.IgnoreNotFound(f.api.Delete(f.t.Context(), &m)))
		}
		for _, c := range f.computers {
			c.off, c.deaf, c.mute = false, false, false
			host := &infrav1.CapstanHost{}
			switch {
			case !f.exists(c.name, host):
				f.register(c)
			case host.Spec.Claim == nil && conditions.GetReason(host, infrav1.CleanCondition) == infrav1.LeftoversFoundReason:
				f.annotate(c.name, infrav1.AcceptAnnotation)
			case host.Spec.Claim != nil && conditions.GetReason(host, infrav1.ReadyCondition) == infrav1.MachineGoneReason &&
				!host.Spec.Claim.Released: // the backup had the claim but not its machine
				edit(f.world, host, func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true })
			}
			f.visit(c)
		}
		f.turn()
		if f.free() {
			return
		}
	}
	for _, c := range f.computers {
		f.t.Errorf("computer %s: runs %v, journal %v, host %+v", c.name, c.runs, c.journal, f.host(c.name))
	}
}

func (f *fence) free() bool {
	for _, c := range f.computers {
		host := &infrav1.CapstanHost{}
		if !f.exists(c.name, host) || !host.DeletionTimestamp.IsZero() || host.Spec.Claim != nil || len(c.runs) > 0 ||
			!conditions.IsTrue(host, infrav1.ReadyCondition) {
			return false
		}
	}
	return len(f.allMachines()) == 0
}

// itemsOf returns the objects of a list.
func itemsOf(t *testing.T, l client.ObjectList) (items []client.Object) {
	t.Helper()
	found, err := meta.ExtractList(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found {
		items = append(items, o.(client.Object))
	}
	return items
}
