package placement

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// fill puts the hosts into an index and calls Place.
func fill(hosts []infrav1.CapstanHost, request Request) (*infrav1.CapstanHost, Explanation) {
	x := NewIndex()
	for i := range hosts {
		x.Put(&hosts[i])
	}
	return x.Place(request)
}

// scan defines what placement means, by checking every host.
func scan(hosts []infrav1.CapstanHost, request Request) (*infrav1.CapstanHost, Explanation) {
	var fit []*infrav1.CapstanHost
	inZone := map[string]int{}
	why := Explanation{Total: len(hosts)}
	for i := range hosts {
		host := &hosts[i]
		c := host.Spec.Claim
		if c != nil && !c.Released && c.Cluster == request.Cluster && c.ControlPlane == request.ControlPlane {
			inZone[host.Spec.Zone]++
		}
		if o := obstacleByScan(host, request); o != none {
			why.obstacles[o]++
			continue
		}
		fit = append(fit, host)
	}
	why.Fit = len(fit)
	if len(fit) == 0 {
		return nil, why
	}
	return slices.MinFunc(fit, func(a, b *infrav1.CapstanHost) int {
		return cmp.Or(cmp.Compare(inZone[a.Spec.Zone], inZone[b.Spec.Zone]), cmp.Compare(a.Name, b.Name))
	}), why
}

func obstacleByScan(host *infrav1.CapstanHost, request Request) obstacle {
	has := func(v string) bool { return strings.TrimPrefix(v, "v") == strings.TrimPrefix(request.Version, "v") }
	versions := host.Status.KubernetesVersions
	switch {
	case host.Spec.Claim != nil:
		return claimed
	case !host.DeletionTimestamp.IsZero():
		return deleting
	case host.Spec.Unschedulable, host.Spec.Drain, host.Spec.Maintenance != "":
		return unschedulable
	case request.Zone != "" && host.Spec.Zone != request.Zone:
		return otherZone
	case request.Selector != nil && !request.Selector.Matches(labels.Set(host.Labels)):
		return notSelected
	case !hasByScan(host.Status.Agent, request.Hardware):
		return otherHardware
	case request.Version != "" && len(versions) > 0 && !slices.ContainsFunc(versions, has):
		return otherVersion
	case meta.IsStatusConditionTrue(host.Status.Conditions, infrav1.ReadyCondition):
		return none
	}
	switch host.Status.Phase {
	case infrav1.HostOffline:
		return offline
	case infrav1.HostCleaning:
		return cleaning
	case infrav1.HostQuarantined:
		return quarantined
	default:
		return enrolling
	}
}

func hasByScan(agent *infrav1.AgentReport, wanted infrav1.HostRequirements) bool {
	if agent == nil {
		agent = &infrav1.AgentReport{}
	}
	disk := slices.ContainsFunc(agent.Disks, func(d infrav1.HostDisk) bool { return d.SizeGiB >= wanted.MinDiskGiB })
	return (wanted.Architecture == "" || wanted.Architecture == agent.Architecture) &&
		wanted.MinProcessors <= agent.Processors && wanted.MinMemoryMiB <= agent.MemoryMiB &&
		(wanted.MinDiskGiB == 0 || disk)
}

// someHost returns a random host with one of a few names.
func someHost(r *rand.Rand) infrav1.CapstanHost {
	host := ready(fmt.Sprintf("h%02d", r.IntN(30)), fmt.Sprintf("z%d", r.IntN(3)))
	maybe := func(n int, e edit) {
		if r.IntN(n) == 0 {
			e(&host)
		}
	}
	maybe(3, claimedBy([]string{"demo", "other"}[r.IntN(2)], r.IntN(2) == 0))
	if host.Spec.Claim != nil {
		maybe(4, released)
	}
	maybe(4, labelled("disk", []string{"ssd", "hdd"}[r.IntN(2)]))
	maybe(4, func(h *infrav1.CapstanHost) {
		h.Labels = map[string]string{"disk": "ssd", "rack": fmt.Sprint(r.IntN(3)), "serial": fmt.Sprint(r.Int())}
	})
	maybe(3, versions([]string{"v1.36.3", "1.36.3", "v1.35.4"}[r.IntN(3)]))
	maybe(8, versions("v1.36.3", "v1.35.4"))
	phases := []infrav1.HostPhase{
		"", infrav1.HostOffline, infrav1.HostCleaning, infrav1.HostQuarantined, infrav1.HostEnrolling,
	}
	maybe(5, unready(phases[r.IntN(len(phases))]))
	maybe(10, func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true })
	maybe(10, func(h *infrav1.CapstanHost) { h.Spec.Drain = true })
	maybe(20, func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "disks" })
	maybe(2, func(h *infrav1.CapstanHost) {
		h.Status.Agent = &infrav1.AgentReport{
			Architecture: []string{"amd64", "arm64", ""}[r.IntN(3)], Processors: r.Int32N(4), MemoryMiB: r.Int64N(4000),
			Disks: []infrav1.HostDisk{{SizeGiB: r.Int64N(100)}, {SizeGiB: r.Int64N(100)}}[:r.IntN(3)],
		}
	})
	maybe(10, func(h *infrav1.CapstanHost) { h.DeletionTimestamp = &metav1.Time{} })
	maybe(20, func(h *infrav1.CapstanHost) { now := metav1.Now(); h.DeletionTimestamp = &now })
	return host
}

func someRequest(r *rand.Rand) Request {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	request := Request{
		Cluster: pick("demo", "other"), ControlPlane: r.IntN(2) == 0, Zone: pick("", "", "z0", "z1", "z7"),
		Version: pick("", "v1.36.3", "1.35.4", "v9.9.9"),
	}
	if r.IntN(3) == 0 {
		request.Hardware = infrav1.HostRequirements{
			Architecture: pick("", "amd64", "arm64"), MinProcessors: r.Int32N(3), MinMemoryMiB: 1000 * r.Int64N(3),
			MinDiskGiB: 30 * r.Int64N(3),
		}
	}
	selector := pick("", "-", "disk=ssd", "disk!=ssd", "rack in (1, 2)", "!disk", "disk=ssd,rack=1", "rack>1", "none")
	switch selector {
	case "-":
	case "none":
		request.Selector = labels.Nothing()
	default:
		s, err := labels.Parse(selector)
		if err != nil {
			panic(err)
		}
		request.Selector = s
	}
	return request
}

// seeds is how many random inventories TestIndexAnswersLikeAScan changes.
var seeds uint64 = 300

// TestIndexAnswersLikeAScan changes inventories at random and compares the index with scan: host and explanation must
// always be the same, and what Put reports about changes must be true.
func TestIndexAnswersLikeAScan(t *testing.T) {
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 14))
		x, all := NewIndex(), map[string]infrav1.CapstanHost{}
		requests := make([]Request, 30)
		for i := range requests {
			requests[i] = someRequest(r)
		}
		for range 60 {
			before := make([]string, len(requests))
			for i, q := range requests {
				before[i] = answer(x.Place(q))
			}
			changed := false
			if host := someHost(r); r.IntN(4) == 0 {
				_, has := all[host.Name]
				delete(all, host.Name)
				if changed = x.Delete(host.Name); changed != has {
					t.Fatalf("seed %d: Delete returns %t for a host that was there: %t", seed, changed, has)
				}
			} else {
				all[host.Name] = host
				changed = x.Put(&host)
			}
			var hosts []infrav1.CapstanHost
			for _, host := range all {
				hosts = append(hosts, host)
			}
			for i, q := range requests {
				got, want := answer(x.Place(q)), answer(scan(hosts, q))
				if got != want {
					t.Fatalf("seed %d, request %+v: the index says %s\nthe scan says %s", seed, q, got, want)
				}
				if got != before[i] && !changed {
					t.Fatalf("seed %d: the answer went from %s to %s, but no change was reported",
						seed, before[i], got)
				}
			}
		}
	}
}

func answer(host *infrav1.CapstanHost, why Explanation) string {
	if host == nil {
		return "none: " + why.String()
	}
	return host.Name + ": " + why.String()
}

// TestAnIndexLetsGo checks that deleted hosts leave nothing behind, and that requests can't make an index grow forever.
func TestAnIndexLetsGo(t *testing.T) {
	x := NewIndex()
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		host := someHost(r)
		x.Put(&host)
		key := fmt.Sprintf("key-%d", r.IntN(500))
		x.Place(Request{Selector: labels.SelectorFromSet(labels.Set{key: "x"})})
		if len(x.views) > maxViews {
			t.Fatalf("%d views", len(x.views))
		}
	}
	for i := range 30 {
		x.Delete(fmt.Sprintf("h%02d", i))
	}
	if x.Len() != 0 || len(x.machines) != 0 || x.closed != [obstacles]int{} {
		t.Errorf("left: %d hosts, machines %v, counts %v", x.Len(), x.machines, x.closed)
	}
	for id, v := range x.views {
		if len(v.shapes)+len(v.of) != 0 {
			t.Errorf("view %q has %d shapes and %d hosts", id, len(v.shapes), len(v.of))
		}
	}
}

// TestNamesKnowTheFirst adds and removes names at random.
func TestNamesKnowTheFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n, has := &names{}, map[string]bool{}
	for range 20000 {
		name := fmt.Sprintf("%03d", r.IntN(200))
		if r.IntN(2) == 0 {
			n.add(name)
			has[name] = true
		} else {
			n.remove(name)
			delete(has, name)
		}
		want := ""
		for name := range has {
			if want == "" || name < want {
				want = name
			}
		}
		if n.len() != len(has) || want != "" && n.first() != want {
			t.Fatalf("%d names, want %d; the first is not %s", n.len(), len(has), want)
		}
	}
}
