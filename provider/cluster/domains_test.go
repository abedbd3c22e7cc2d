package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func free(zone string) infrav1.CapstanHost {
	h := infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: zone}}
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}}
	return h
}

func unready(zone string) infrav1.CapstanHost {
	return infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: zone}}
}

func taken(zone string) infrav1.CapstanHost { return claimed(free(zone)) }

// claimed returns the host with a machine.
func claimed(h infrav1.CapstanHost) infrav1.CapstanHost {
	h.Spec.Claim = &infrav1.HostClaim{Machine: "of-" + h.Spec.Zone}
	return h
}

// endpointOf returns a free host whose address is the endpoint of a cluster.
func endpointOf(cluster, zone string) infrav1.CapstanHost {
	h := free(zone)
	h.Labels = map[string]string{infrav1.EndpointLabel: infrav1.EndpointMark("", cluster)}
	return h
}

// labelled returns a free host with a label.
func labelled(zone, key string) infrav1.CapstanHost {
	h := free(zone)
	h.Labels = map[string]string{key: "true"}
	return h
}

// selecting returns the CapstanCluster of a cluster whose control plane requires hosts with a label.
func selecting(cluster, key string) infrav1.CapstanCluster {
	c := named(cluster)
	c.Spec.ControlPlaneHostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: "true"}}
	return c
}

// balanced returns the CapstanCluster with a balancer of the management plane.
func balanced(c infrav1.CapstanCluster) infrav1.CapstanCluster {
	c.Spec.LoadBalancer.Type = infrav1.LoadBalancerLocal
	return c
}

func goes(h infrav1.CapstanHost) infrav1.CapstanHost {
	h.DeletionTimestamp = ptr.To(metav1.Now())
	return h
}

// saying returns the host with labels that set attributes of its zone.
func saying(h infrav1.CapstanHost, words ...string) infrav1.CapstanHost {
	h.Labels = map[string]string{"rack": "7"}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		h.Labels[infrav1.ZoneAttributePrefix+key] = value
	}
	return h
}

// bound returns a control plane machine of a cluster that is bound to a zone.
func bound(cluster, zone string) clusterv1.Machine {
	m := clusterv1.Machine{}
	m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	m.Spec.ClusterName, m.Spec.FailureDomain = cluster, zone
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Name: "of-" + zone,
	}
	return m
}

func worker(cluster, zone string) clusterv1.Machine {
	m := bound(cluster, zone)
	m.Labels = nil
	return m
}

// standing returns a machine that runs in a zone but was not bound to it.
func standing(zone string) clusterv1.Machine {
	m := worker("", "")
	m.Status.FailureDomain = zone
	return m
}

// named returns the CapstanCluster of a cluster to which an earlier process offered these zones.
func named(cluster string, offers ...string) infrav1.CapstanCluster {
	return asked(infrav1.CapstanCluster{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster,
		}},
	}}, offers...)
}

// asked returns the CapstanCluster with these zones offered.
func asked(c infrav1.CapstanCluster, offers ...string) infrav1.CapstanCluster {
	for _, zone := range offers {
		c.Status.Initialization.Provisioned = ptr.To(true)
		c.Status.FailureDomains = append(c.Status.FailureDomains, clusterv1.FailureDomain{
			Name: zone, ControlPlane: ptr.To(true),
		})
	}
	return c
}

func pictureOf(
	promises *promises, hosts []infrav1.CapstanHost, machines []clusterv1.Machine, clusters []infrav1.CapstanCluster,
) picture {
	p := newPicture("")
	for i := range hosts {
		p.addHost(&hosts[i])
	}
	for i := range machines {
		p.addMachine(&machines[i])
	}
	for i := range clusters {
		p.addCluster(&clusters[i], promises)
	}
	return p
}

// text lists the zones and their attributes, with a star for zones that are offered to control plane machines.
func text(domains []clusterv1.FailureDomain) string {
	var names []string
	for _, d := range domains {
		if ptr.Deref(d.ControlPlane, false) {
			d.Name += "*"
		}
		for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
			d.Name += fmt.Sprintf("{%s=%s}", key, d.Attributes[key])
		}
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

func TestDomains(t *testing.T) {
	mine := bound("mine", "")
	for name, c := range map[string]struct {
		hosts    []infrav1.CapstanHost
		machines []clusterv1.Machine
		others   []infrav1.CapstanCluster
		want     string // a star marks zones that are offered to control plane machines
	}{
		"no hosts": {},
		"zones are sorted, each is listed once": {hosts: []infrav1.CapstanHost{free("b"), free("a"), free("b")},
			want: "a* b*"},
		"a host that is being deleted does not count": {
			hosts: []infrav1.CapstanHost{goes(free("a")), free("b"), goes(free("b"))}, want: "b*",
		},
		"a full zone is not offered": {
			hosts: []infrav1.CapstanHost{taken("a"), taken("b"), free("b"), taken("b")}, want: "a b*",
		},
		"all zones are full":       {hosts: []infrav1.CapstanHost{taken("a"), taken("b")}, want: "a b"},
		"a host that is not Ready": {hosts: []infrav1.CapstanHost{unready("a"), free("b")}, want: "a b*"},
		"a host that is being deleted still has a machine": {
			hosts: []infrav1.CapstanHost{goes(taken("a")), free("b")}, want: "a b*",
		},
		"the host of a machine is gone": {
			hosts: []infrav1.CapstanHost{free("b")}, machines: []clusterv1.Machine{standing("a")}, want: "a b*",
		},
		"a machine waits for the last host of a zone": {
			hosts: []infrav1.CapstanHost{free("a"), free("b")}, machines: []clusterv1.Machine{worker("other", "a")},
			want: "a b*",
		},
		"a machine that has its host does not wait for another": {
			hosts: []infrav1.CapstanHost{taken("a"), free("a")}, machines: []clusterv1.Machine{worker("other", "a")},
			want: "a*",
		},
		"a machine is bound to an unknown zone": {
			hosts: []infrav1.CapstanHost{free("b")}, machines: []clusterv1.Machine{worker("other", "x")}, want: "b*",
		},
		"another cluster is promised the last host of a zone": {
			hosts: []infrav1.CapstanHost{free("a"), free("b")}, others: []infrav1.CapstanCluster{named("other", "a")},
			want: "a b*",
		},
		"another cluster was offered all zones by an earlier version": {
			hosts: []infrav1.CapstanHost{free("a"), free("b")}, others: []infrav1.CapstanCluster{named("other", "a", "b")},
			want: "a* b*",
		},
		"the endpoint is the address of a host": {
			hosts: []infrav1.CapstanHost{free("a"), endpointOf("mine", "b"), free("c")}, want: "a b* c",
		},
		"the endpoint is the address of a host, which has its machine": {
			hosts: []infrav1.CapstanHost{free("a"), claimed(endpointOf("mine", "b"))}, want: "a b*",
		},
		"the endpoint of another cluster is the address of a host": {
			hosts: []infrav1.CapstanHost{free("a"), endpointOf("other", "b")}, want: "a* b*",
		},
		"the control plane can't use the hosts of one zone": {
			hosts: []infrav1.CapstanHost{free("a"), labelled("b", "ssd")}, want: "a b*",
			others: []infrav1.CapstanCluster{selecting("mine", "ssd")},
		},
		"the control plane can't use the hosts of any zone": {
			hosts: []infrav1.CapstanHost{free("a"), labelled("b", "ssd")}, want: "a b",
			others: []infrav1.CapstanCluster{selecting("mine", "other")},
		},
		"a zone has hosts of both kinds": {
			hosts: []infrav1.CapstanHost{free("a"), labelled("a", "ssd"), free("b")}, want: "a* b",
			machines: []clusterv1.Machine{worker("other", "a")},
			others:   []infrav1.CapstanCluster{selecting("mine", "ssd")},
		},
		"a cluster with the same selector is promised a host": {
			hosts: []infrav1.CapstanHost{free("a"), labelled("a", "ssd"), labelled("b", "ssd")}, want: "a b*",
			others: []infrav1.CapstanCluster{selecting("mine", "ssd"), asked(selecting("other", "ssd"), "a")},
		},
		"a cluster without a selector is promised a host": {
			hosts: []infrav1.CapstanHost{free("a"), labelled("a", "ssd"), labelled("b", "ssd")}, want: "a* b*",
			others: []infrav1.CapstanCluster{selecting("mine", "ssd"), named("other", "a")},
		},
		"the balancer reaches only local hosts": {
			hosts: []infrav1.CapstanHost{labelled("a", infrav1.EnrolledLabel), free("b")}, want: "a b*",
			others: []infrav1.CapstanCluster{balanced(named("mine"))},
		},
		"the balancer reaches only local hosts, and the control plane can use only some of them": {
			hosts: []infrav1.CapstanHost{labelled("a", infrav1.EnrolledLabel), free("b"), labelled("c", "ssd")}, want: "a b c*",
			others: []infrav1.CapstanCluster{balanced(selecting("mine", "ssd"))},
		},
		"a selector that can't be read": {
			hosts: []infrav1.CapstanHost{labelled("a", "ssd")}, want: "a",
			others: []infrav1.CapstanCluster{selecting("mine", "not a key")},
		},
		"operators set attributes of a zone": {
			hosts: []infrav1.CapstanHost{saying(free("a"), "region=eu"), saying(free("a"), "power=x"), free("b")},
			want:  "a*{power=x}{region=eu} b*",
		},
		"operators set an attribute of a zone to different values": {
			hosts: []infrav1.CapstanHost{
				saying(free("a"), "region=eu", "power=x"), saying(free("a"), "region=us"), saying(free("a"), "region=eu"),
			},
			want: "a*{power=x}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pictureOf(&promises{}, c.hosts, append(c.machines, mine), c.others)
			if got := text(p.wanted("mine")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Attr("rule", "IC-20 v1beta2")
}

// TestClustersMadeAtOnce checks that each cluster is promised a host before the next one looks, whatever the cache
// shows.
func TestClustersMadeAtOnce(t *testing.T) {
	var hosts []infrav1.CapstanHost
	for _, zone := range []string{"a", "b", "c"} {
		for range 4 {
			hosts = append(hosts, free(zone))
		}
	}
	var clusters []infrav1.CapstanCluster
	for i := range 13 {
		clusters = append(clusters, named(fmt.Sprint("c", i)))
	}
	var made promises
	offers := map[string]int{}
	for i := range clusters {
		p := pictureOf(&made, hosts, nil, clusters)
		offers[text(made.commit(p, types.NamespacedName{Name: ownerName(&clusters[i])}))]++
	}
	want := map[string]int{"a* b c": 4, "a b* c": 4, "a b c*": 4, "a b c": 1}
	if !maps.Equal(offers, want) {
		t.Errorf("offers %v, want %v", offers, want)
	}
}

func TestPromises(t *testing.T) {
	hosts := []infrav1.CapstanHost{free("a"), free("b")}
	key := types.NamespacedName{Name: "mine"}
	mine, other := named("mine"), named("other")
	for name, c := range map[string]struct {
		held map[types.NamespacedName]string
		then []infrav1.CapstanHost
		with []clusterv1.Machine
		has  []infrav1.CapstanCluster
		want string
		left int // recorded promises
	}{
		"a new cluster is promised a host in one zone": {then: hosts, want: "a* b", left: 1},
		"a promise stays": {held: map[types.NamespacedName]string{key: "b"}, then: hosts, want: "a b*", left: 1},
		"a promise of an earlier process stays, too": {
			then: hosts, has: []infrav1.CapstanCluster{named("mine", "b")}, want: "a b*", left: 1,
		},
		"a promise in memory counts more than one in the cache": {
			held: map[types.NamespacedName]string{key: "a"}, then: hosts,
			has: []infrav1.CapstanCluster{named("mine", "b")}, want: "a* b", left: 1,
		},
		"the promised host is taken": {
			held: map[types.NamespacedName]string{key: "a"}, then: []infrav1.CapstanHost{taken("a"), free("b")},
			want: "a b*", left: 1,
		},
		"a machine of another cluster waits for the promised host": {
			held: map[types.NamespacedName]string{key: "a"}, then: hosts, with: []clusterv1.Machine{worker("other", "a")},
			want: "a b*", left: 1,
		},
		"no host is left": {then: []infrav1.CapstanHost{taken("a")}, want: "a", left: 1},
		"the first control plane machine exists": {
			held: map[types.NamespacedName]string{key: "a"}, then: append(hosts, free("a")),
			with: []clusterv1.Machine{bound("mine", "a")}, want: "a* b*",
		},
		"the promise is in the zone of a host that the control plane can use": {
			then: append(hosts, labelled("b", "ssd")), has: []infrav1.CapstanCluster{selecting("mine", "ssd")},
			want: "a b*", left: 1,
		},
		"the control plane can't use the promised host": {
			held: map[types.NamespacedName]string{key: "a"}, then: append(hosts, labelled("c", "ssd")),
			has: []infrav1.CapstanCluster{selecting("mine", "ssd")}, want: "a b c*", left: 1,
		},
		"the promise moves to the zone of the endpoint's host": {
			held: map[types.NamespacedName]string{key: "a"}, then: append(hosts, endpointOf("mine", "c")),
			want: "a b c*", left: 1,
		},
		"the promise to a cluster that is gone is dropped": {
			held: map[types.NamespacedName]string{{Name: "gone"}: "a"}, then: hosts, want: "a* b", left: 1,
		},
		"a promise in another namespace stays": {
			held: map[types.NamespacedName]string{{Namespace: "else", Name: "other"}: "a"}, then: hosts, want: "a* b", left: 2,
		},
		"another cluster is promised a host": {
			held: map[types.NamespacedName]string{{Name: "other"}: "a"}, then: hosts,
			has: []infrav1.CapstanCluster{mine, other}, want: "a b*", left: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.has == nil {
				c.has = []infrav1.CapstanCluster{mine}
			}
			s := &promises{zones: c.held}
			p := pictureOf(s, c.then, c.with, c.has)
			if got := text(s.commit(p, key)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(s.zones) != c.left {
				t.Errorf("the recorded promises are %v, want %d", s.zones, c.left)
			}
		})
	}
}
