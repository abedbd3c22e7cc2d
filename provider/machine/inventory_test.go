package machine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pool"
)

// inventory is a fast API server that only has hosts, and refuses patches of hosts that have changed. It records a
// claim as wrong if the host is already claimed, or if the machine already has a host.
type inventory struct {
	client.Client // nil, because the provider must not use anything else

	// changed is called for every write, in order, with the new state of the host or with the deleted host.
	changed func(host *infrav1.CapstanHost, deleted bool)
	// faulty makes one in eight claims run into a problem.
	faulty bool

	mu      sync.Mutex
	random  *rand.Rand
	version int
	hosts   map[string]*infrav1.CapstanHost
	claims  map[string]string // hosts, by uid of the machine
	wrong   []string
	late    sync.WaitGroup // patches still under way after their answer was lost
}

// newInventory returns an inventory of n free hosts in three zones.
func newInventory(n int, changed func(*infrav1.CapstanHost, bool)) *inventory {
	i := &inventory{
		changed: changed, random: rand.New(rand.NewPCG(14, 1)),
		hosts: map[string]*infrav1.CapstanHost{}, claims: map[string]string{},
	}
	for number := range n {
		i.enroll(number, "first")
	}
	return i
}

func (i *inventory) enroll(number int, life string) {
	name := fmt.Sprintf("host-%05d", number)
	host := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name + life)},
		Spec:       infrav1.CapstanHostSpec{Zone: "zone-" + string("abc"[number%3])},
		Status: infrav1.CapstanHostStatus{
			Phase: infrav1.HostAvailable, KubernetesVersions: []string{"v1.35.4", "v1.36.3"},
			Conditions: []metav1.Condition{{
				Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason,
			}},
		},
	}
	i.put(host)
}

// put stores a host with a new resource version.
func (i *inventory) put(host *infrav1.CapstanHost) {
	i.version++
	host.ResourceVersion = strconv.Itoa(i.version)
	i.hosts[host.Name] = host
	i.changed(host, false)
}

// touch changes a host in a way that does not matter to machines.
func (i *inventory) touch(name string) {
	host := i.hosts[name].DeepCopy()
	host.Generation++
	i.put(host)
}

// free clears the claim of a host, as its controller does. Sometimes it deletes and enrolls the host again instead.
func (i *inventory) free(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	host := i.hosts[name].DeepCopy()
	if host.Spec.Claim = nil; !i.faulty || i.random.IntN(50) > 0 {
		i.put(host)
		return
	}
	i.version++
	host.ResourceVersion = strconv.Itoa(i.version)
	delete(i.hosts, name)
	i.changed(host, true)
	number, _ := strconv.Atoi(name[len("host-"):])
	i.enroll(number, host.ResourceVersion)
}

func (i *inventory) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	host := i.hosts[key.Name]
	if host == nil {
		return apierrors.NewNotFound(resource, key.Name)
	}
	host.DeepCopyInto(o.(*infrav1.CapstanHost))
	return nil
}

func (i *inventory) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, host := range i.hosts {
		l.(*infrav1.CapstanHostList).Items = append(l.(*infrav1.CapstanHostList).Items, *host.DeepCopy())
	}
	return nil
}

var resource = schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "capstanhosts"}

// Patch writes a claim.
func (i *inventory) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	if !i.faulty { // measured too, because every client computes what it sends
		if _, err := p.Data(o); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	host := o.(*infrav1.CapstanHost)
	what := 100
	if i.faulty {
		what = i.random.IntN(40)
	}
	switch what {
	case 0: // the host has just changed
		if i.hosts[host.Name] != nil {
			i.touch(host.Name)
		}
	case 1:
		return apierrors.NewConflict(resource, host.Name, errInjected)
	case 2: // the answer is lost
		_ = i.claim(host.DeepCopy())
		return errInjected
	case 3: // the request is lost
		return apierrors.NewTimeoutError("too slow", 1)
	case 4: // the request arrives after its sender has given up
		late := host.DeepCopy()
		i.late.Go(func() {
			time.Sleep(time.Duration(late.Generation%5) * 100 * time.Microsecond)
			i.mu.Lock()
			defer i.mu.Unlock()
			_ = i.claim(late)
		})
		return errInjected
	}
	return i.claim(host)
}

func (i *inventory) claim(host *infrav1.CapstanHost) error {
	is := i.hosts[host.Name]
	switch {
	case is == nil:
		return apierrors.NewNotFound(resource, host.Name)
	case is.UID != host.UID || is.ResourceVersion != host.ResourceVersion:
		return apierrors.NewConflict(resource, host.Name, errInjected)
	}
	c := host.Spec.Claim
	if is.Spec.Claim != nil {
		i.wrong = append(i.wrong,
			fmt.Sprintf("host %s of %s is claimed by %s", host.Name, is.Spec.Claim.Machine, c.Machine))
	}
	if other := i.claims[c.MachineUID]; other != "" {
		i.wrong = append(i.wrong, fmt.Sprintf("%s has claimed %s and %s", c.Machine, other, host.Name))
	}
	i.claims[c.MachineUID] = host.Name
	i.put(host.DeepCopy())
	host.ResourceVersion = i.hosts[host.Name].ResourceVersion
	return nil
}

// newcomer returns the scope of a machine that has no host.
func newcomer(number int) *scope {
	id := strconv.Itoa(number)
	meta := metav1.ObjectMeta{Namespace: ns, Name: "m" + id, UID: types.UID("uid-" + id)}
	return &scope{
		capstan: &infrav1.CapstanMachine{ObjectMeta: meta},
		machine: &clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: "v1.36.3"}},
	}
}

// claimants returns a reconciler that claims hosts of the inventory.
func claimants(i *inventory, hosts *pool.Pool) *Reconciler {
	return &Reconciler{Client: i, Reader: i, Hosts: hosts, Recorder: &events.FakeRecorder{}}
}

// seek runs the steps that find a host.
func (r *Reconciler) seek(ctx context.Context, s *scope) error {
	for _, run := range []run{(*Reconciler).find, (*Reconciler).place, (*Reconciler).claimHost} {
		if answer, err := run(r, ctx, s); err != nil || answer.Stopped() {
			return err
		}
	}
	return nil
}

// BenchmarkClaim compares the time of a claim in an inventory of 100 hosts with that in one of 10,000 hosts. In both,
// half of the hosts are in use. It alternates between the two, so that both see the same load. It fails if a claim in
// the larger one takes more than 1.5 times as long.
func BenchmarkClaim(b *testing.B) {
	const batch = 32
	small, large := newRound(b, 100), newRound(b, 10_000)
	var took [2][]time.Duration
	for b.Loop() {
		for n, r := range []*round{small, large} {
			took[n] = append(took[n], r.claims(b, batch)/batch)
		}
	}
	fast, slow := median(took[0]), median(took[1])
	ratio := float64(slow) / float64(fast)
	b.ReportMetric(float64(fast.Nanoseconds()), "ns/claim-of-100")
	b.ReportMetric(float64(slow.Nanoseconds()), "ns/claim-of-10000")
	b.ReportMetric(ratio, "ratio")
	if len(took[0]) >= 20 && ratio > 1.5 {
		b.Errorf("a claim takes %v with 100 hosts and %v with 10,000: %.2f times as long, want at most 1.5",
			fast, slow, ratio)
	}
}

// round is an inventory in which machines claim hosts and release them.
type round struct {
	*Reconciler
	api  *inventory
	next int
}

func newRound(b *testing.B, n int) *round {
	api := newInventory(n, func(*infrav1.CapstanHost, bool) {})
	r := &round{Reconciler: claimants(api, pool.New(api, "")), api: api}
	for _, host := range api.hosts {
		r.Hosts.Observe(host)
	}
	api.changed = func(host *infrav1.CapstanHost, _ bool) { r.Hosts.Observe(host) }
	for range n / 2 {
		r.one(b)
	}
	return r
}

// claims returns how long n claims took, and frees the hosts afterwards.
func (r *round) claims(b *testing.B, n int) time.Duration {
	start := time.Now()
	names := make([]string, n)
	for i := range n {
		names[i] = r.one(b)
	}
	took := time.Since(start)
	for _, name := range names {
		r.api.free(name)
	}
	return took
}

func (r *round) one(b *testing.B) string {
	r.next++
	s := newcomer(r.next)
	if err := r.seek(b.Context(), s); err != nil || s.host == nil {
		b.Fatalf("error %v, host %v", err, s.host)
	}
	return s.host.Name
}
