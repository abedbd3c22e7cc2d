package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

type edit func(*infrav1.CapstanHost)

// ready returns a host that any machine of namespace default can take.
func ready(name, zone string, edits ...edit) infrav1.CapstanHost {
	h := infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       infrav1.CapstanHostSpec{Zone: zone},
		Status: infrav1.CapstanHostStatus{
			Phase:      infrav1.HostAvailable,
			Conditions: []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}},
		},
	}
	for _, e := range edits {
		e(&h)
	}
	return h
}

func claimedBy(cluster string, controlPlane bool) edit {
	return func(h *infrav1.CapstanHost) {
		h.Spec.Claim = &infrav1.HostClaim{Cluster: cluster, ControlPlane: controlPlane}
	}
}

func released(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true }

func unready(phase infrav1.HostPhase) edit {
	return func(h *infrav1.CapstanHost) {
		h.Status.Phase = phase
		h.Status.Conditions[0].Status = metav1.ConditionFalse
	}
}

func versions(v ...string) edit {
	return func(h *infrav1.CapstanHost) { h.Status.KubernetesVersions = v }
}

func labelled(key, value string) edit {
	return func(h *infrav1.CapstanHost) { h.Labels = map[string]string{key: value} }
}

// says sets the hardware that a host reports.
func says(architecture string, processors int32, memory int64, disks ...int64) edit {
	return func(h *infrav1.CapstanHost) {
		h.Status.Agent = &infrav1.AgentReport{Architecture: architecture, Processors: processors, MemoryMiB: memory}
		for _, size := range disks {
			h.Status.Agent.Disks = append(h.Status.Agent.Disks, infrav1.HostDisk{SizeGiB: size})
		}
	}
}

func TestPlace(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		hosts   []infrav1.CapstanHost
		request Request
		want    string
		why     string
	}{
		"an empty inventory": {why: "there are no hosts in this namespace"},
		"one free host":      {hosts: []infrav1.CapstanHost{ready("a", "z1")}, want: "a", why: "1 of 1 host fits"},
		"the first by name, whatever the order of the list": {
			hosts: []infrav1.CapstanHost{ready("c", "z1"), ready("a", "z1"), ready("b", "z1")}, want: "a",
			why: "3 of 3 hosts fit",
		},
		"a host whose controller has not reported yet does not fit": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1", func(h *infrav1.CapstanHost) { h.Status = infrav1.CapstanHostStatus{} }),
			},
			why: "0 of 1 host fits: 1 not ready yet",
		},
		"the wanted zone, IM-17": {
			hosts:   []infrav1.CapstanHost{ready("a", "z1"), ready("b", "z2")},
			request: Request{Zone: "z2"}, want: "b", why: "1 of 2 hosts fit: 1 in another zone",
		},
		"no host in the wanted zone, IM-17": {
			hosts:   []infrav1.CapstanHost{ready("a", "z1"), ready("b", "z2")},
			request: Request{Zone: "z3"}, why: "0 of 2 hosts fit: 2 in another zone",
		},
		"the wanted hardware": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1"), ready("b", "z1", says("amd64", 2, 4000, 100)), ready("c", "z1", says("arm64", 8, 8000, 50)),
				ready("d", "z1", says("amd64", 8, 8000, 50)), ready("e", "z1", says("amd64", 8, 8000, 40, 100)),
				ready("f", "z1", says("amd64", 8, 3999, 100)),
			},
			request: Request{Hardware: infrav1.HostRequirements{
				Architecture: "amd64", MinProcessors: 4, MinMemoryMiB: 4000, MinDiskGiB: 100,
			}},
			want: "e", why: "1 of 6 hosts fit: 5 without the required hardware",
		},
		"a host that is drained, and one in maintenance": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1", func(h *infrav1.CapstanHost) { h.Spec.Drain = true }),
				ready("b", "z1", func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "disks" }),
			},
			why: "0 of 2 hosts fit: 2 unschedulable",
		},
		"the selector": {
			hosts:   []infrav1.CapstanHost{ready("a", "z1"), ready("b", "z1", labelled("disk", "ssd"))},
			request: Request{Selector: labels.SelectorFromSet(labels.Set{"disk": "ssd"})}, want: "b",
			why: "1 of 2 hosts fit: 1 without the selected labels",
		},
		"the version, with or without v": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1", versions("v1.35.4")), ready("b", "z1", versions("1.36.3", "v1.35.4")),
				ready("c", "z1", versions("v1.36.30")),
			},
			request: Request{Version: "v1.36.3"}, want: "b", why: "1 of 3 hosts fit: 2 without the Kubernetes version",
		},
		"a host that reports no versions": {
			hosts: []infrav1.CapstanHost{ready("a", "z1")}, request: Request{Version: "v1.36.3"}, want: "a",
			why: "1 of 1 host fits",
		},
		"all obstacles, each host counted once": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1", claimedBy("demo", false)), ready("b", "z2", claimedBy("demo", false)), ready("c", "z2"),
				ready("d", "z1", unready(infrav1.HostOffline)), ready("e", "z1", unready(infrav1.HostCleaning)),
				ready("f", "z1", unready(infrav1.HostQuarantined)), ready("g", "z1", unready(infrav1.HostEnrolling)),
				ready("h", "z1", func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true }),
				ready("i", "z1", func(h *infrav1.CapstanHost) { h.DeletionTimestamp = &now }),
				ready("j", "z1", versions("v1.35.4")),
			},
			request: Request{Zone: "z1", Version: "v1.36.3"},
			why: "0 of 10 hosts fit: 2 claimed, 1 in another zone, 1 without the Kubernetes version, 1 offline, 1 " +
				"unschedulable, " +
				"1 being cleaned, 1 quarantined, 1 not ready yet, 1 being deleted",
		},
		"the zone with the fewest machines of the cluster and role": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1"), ready("b", "z2"), ready("c", "z3"),
				ready("x", "z1", claimedBy("demo", true)), ready("y", "z2", claimedBy("demo", true)),
			},
			request: Request{Cluster: "demo", ControlPlane: true}, want: "c", why: "3 of 5 hosts fit: 2 claimed",
		},
		"machines of another role or cluster don't count": {
			hosts: []infrav1.CapstanHost{
				ready("a", "z1"), ready("b", "z2"),
				ready("x", "z1", claimedBy("demo", false)), ready("y", "z1", claimedBy("other", true)),
			},
			request: Request{Cluster: "demo", ControlPlane: true}, want: "a", why: "2 of 4 hosts fit: 2 claimed",
		},
		"a released claim doesn't count": {
			hosts: []infrav1.CapstanHost{ready("a", "z1"), ready("b", "z2"),
				ready("x", "z1", claimedBy("demo", true), released)},
			request: Request{Cluster: "demo", ControlPlane: true}, want: "a", why: "2 of 3 hosts fit: 1 claimed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			type place = func([]infrav1.CapstanHost, Request) (*infrav1.CapstanHost, Explanation)
			for _, place := range []place{fill, scan} {
				host, why := place(c.hosts, c.request)
				got := ""
				if host != nil {
					got = host.Name
				}
				if got != c.want || why.String() != c.why {
					t.Errorf("placed on %q: %s\nwant %q: %s", got, why, c.want, c.why)
				}
			}
		})
	}
}

// TestPlaceLaws checks random inventories: the chosen host is free, the counts add up, and the order of the list does
// not matter.
func TestPlaceLaws(t *testing.T) {
	edits := []edit{
		func(*infrav1.CapstanHost) {}, claimedBy("demo", true), claimedBy("demo", false), unready(infrav1.HostOffline),
		versions("v1.36.3"), versions("v1.35.4"), labelled("disk", "ssd"),
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		var hosts []infrav1.CapstanHost
		for i := range r.IntN(20) {
			hosts = append(hosts, ready(fmt.Sprintf("h%02d", i), fmt.Sprintf("z%d", r.IntN(3)), edits[r.IntN(len(edits))]))
		}
		request := Request{Cluster: "demo", ControlPlane: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			request.Version = "v1.36.3"
		}
		host, why := fill(hosts, request)
		sum := why.Fit
		for _, n := range why.obstacles {
			sum += n
		}
		if sum != len(hosts) || (host != nil) != (why.Fit > 0) || host != nil && !Free(host) {
			t.Fatalf("seed %d: host %v, %s, %d hosts", seed, host, why, len(hosts))
		}
		name := ""
		if host != nil {
			name = host.Name
		}
		r.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		again, whyAgain := fill(hosts, request)
		if why.String() != whyAgain.String() || name != "" && again.Name != name {
			t.Fatalf("seed %d: %q, %s; shuffled: %v, %s", seed, name, why, again, whyAgain)
		}
	}
}
