package capacity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
)

// ask calls the gate as Cluster API does. It returns the message, preceded by "passes: " or "waits: ".
func ask(t *testing.T, g *gate, cluster clusterv1.Cluster) string {
	t.Helper()
	return said(t)(g.create(t.Context(), &cluster))
}

// said returns the message of an answer, preceded by "passes: " or "wait ...". An answer that holds a Cluster has a
// reason.
func said(t *testing.T) func(part.Answer, error) string {
	return func(answer part.Answer, err error) string {
		t.Helper()
		switch held := answer.Err(); {
		case err != nil:
			return err.Error()
		case held == nil:
			return "passes: " + answer.Message
		case answer.Reason != ReasonTooFewHosts && answer.Reason != ReasonTooFewHostsInZone:
			return fmt.Sprintf("%v, for the reason %q", held, answer.Reason)
		default:
			return held.Error()
		}
	}
}

func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		hosts  int
		change func(*parttest.World)
		mine   func(*clusterv1.Cluster)
		want   string
	}{
		"enough hosts": {8, nil, nil, "passes: cluster needs 3 hosts, 8 of 8 are free"},
		"too few hosts": {
			2, nil, nil, "wait 5s: cluster needs 3 hosts, 2 of 2 are free: add hosts, or make the cluster smaller",
		},
		"hosts of another namespace do not count": {0, func(w *parttest.World) {
			w.Hosts = parttest.NewWorld(8).Hosts
			for i := range w.Hosts {
				w.Hosts[i].Namespace = "other"
			}
		}, nil, "wait 5s: cluster needs 3 hosts, there are none: add hosts, or make the cluster smaller"},
		"a class of another provider": {0, nil,
			func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "cloud" }, "passes: "},
		"a class that does not exist": {8, nil, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "gone" },
			"reading ClusterClass default/gone: it does not exist"},
		"a zone of the class": {8, nil, func(c *clusterv1.Cluster) {
			c.Spec.Topology.Workers.MachineDeployments[0].Class = "zoned"
		},
			"wait 5s: cluster needs 2 hosts in zone-b, there are none: add hosts there, or change the failure domains"},
		"a zone of the cluster wins over the class's": {8, nil, func(c *clusterv1.Cluster) {
			md := &c.Spec.Topology.Workers.MachineDeployments[0]
			md.Class, md.FailureDomain = "zoned", "zone-a"
		}, "passes: cluster needs 3 hosts, 8 of 8 are free"},
		"replicas that are not set": {8, nil, func(c *clusterv1.Cluster) {
			c.Spec.Topology.ControlPlane.Replicas = nil
			c.Spec.Topology.Workers.MachineDeployments[0].Replicas = nil
		}, "passes: cluster needs 2 hosts, 8 of 8 are free"},
		"replicas of the autoscaler": {8, nil, func(c *clusterv1.Cluster) {
			md := &c.Spec.Topology.Workers.MachineDeployments[0]
			md.Replicas = nil
			md.Metadata.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "4"}
		}, "passes: cluster needs 5 hosts, 8 of 8 are free"},
		"machine pools count too": {8, nil, func(c *clusterv1.Cluster) {
			five := int32(5)
			c.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Class: "pool", Name: "p", Replicas: &five}}
		}, "passes: cluster needs 8 hosts, 8 of 8 are free"},
		"a cluster that is being created has a promise": {4, func(w *parttest.World) {
			other := parttest.NewCluster("other", 1, 1)
			other.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "K", Name: "n", APIGroup: "g"}
			w.Clusters = append(w.Clusters, other)
		}, nil,
			"wait 5s: cluster needs 3 hosts, 2 of 4 are free (2 promised to other clusters): add hosts, or make the cluster " +
				"smaller"},
		"a cluster that is being deleted has no promise": {4, func(w *parttest.World) {
			other := parttest.NewCluster("other", 1, 1)
			other.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "K", Name: "n", APIGroup: "g"}
			now := metav1.Now()
			other.DeletionTimestamp = &now
			w.Clusters = append(w.Clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"a paused cluster that waits has no promise": {4, func(w *parttest.World) {
			other, paused := parttest.NewCluster("a", 1, 1), true
			other.Spec.Paused = &paused
			w.Clusters = append(w.Clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"a cluster whose class is gone has no promise": {4, func(w *parttest.World) {
			other := parttest.NewCluster("a", 1, 1)
			other.Spec.Topology.ClassRef.Name = "gone"
			w.Clusters = append(w.Clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"Machines of a cluster without a topology have a promise": {4, func(w *parttest.World) {
			w.Clusters = append(w.Clusters, clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"},
			})
			for i := range 3 {
				m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("m-%d", i)}}
				m.Spec.ClusterName, m.Spec.Version = "plain", "v1.36.3"
				m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: "m",
				}
				if i == 2 {
					m.Spec.InfrastructureRef.APIGroup = "infrastructure.example.org"
				}
				w.Machines = append(w.Machines, m)
			}
			w.Hosts[0].Spec.Claim = &infrav1.HostClaim{Cluster: "plain"}
		}, nil,
			"wait 5s: cluster needs 3 hosts, 2 of 4 are free (1 claimed, 1 promised to other clusters): add hosts, or make " +
				"the cluster smaller"},
		"the CRD is missing": {8, func(w *parttest.World) {
			w.Fail["CapstanHost"] = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "CapstanHost"}}
		}, nil, "listing CapstanHosts: their CRD is not installed in the management cluster"},
		"listing hosts fails": {8, func(w *parttest.World) { w.Fail["CapstanHost"] = errors.New("forbidden") }, nil,
			"listing CapstanHosts: forbidden"},
		"listing clusters fails": {8, func(w *parttest.World) { w.Fail["Cluster"] = errors.New("forbidden") }, nil,
			"listing Clusters: forbidden"},
		"reading the class fails": {8, func(w *parttest.World) { w.Fail["ClusterClass"] = errors.New("forbidden") }, nil,
			"reading ClusterClass default/local: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w, mine := parttest.NewWorld(c.hosts), parttest.NewCluster("mine", 1, 2)
			if c.change != nil {
				c.change(w)
			}
			if c.mine != nil {
				c.mine(&mine)
			}
			w.Clusters = append(w.Clusters, mine)
			if got := ask(t, newGate(w), mine); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// The gate is asked about the younger Cluster first and lets it pass, but the Cluster does not show this yet.
func TestTwoAtOnceDoNotBothPass(t *testing.T) {
	w := parttest.NewWorld(3)
	older, younger := parttest.NewCluster("older", 1, 2), parttest.NewCluster("younger", 1, 2)
	younger.CreationTimestamp = metav1.NewTime(parttest.Created.Add(time.Minute))
	w.Clusters = []clusterv1.Cluster{younger}
	gate := newGate(w)
	now := parttest.Created
	gate.now = func() time.Time { return now }
	if got := ask(t, gate, younger); !strings.HasPrefix(got, "passes") {
		t.Fatal(got)
	}
	w.Clusters = append(w.Clusters, older) // its creation arrived late
	for range 3 {
		if got := ask(t, gate, older); got != "wait 5s: cluster needs 3 hosts, 0 of 3 are free (3 promised to other "+
			"clusters): add hosts, or make the cluster smaller" {
			t.Error(got)
		}
	}
	if got := ask(t, gate, younger); !strings.HasPrefix(got, "passes") {
		t.Errorf("the younger one, asked again: %s", got)
	}
	// The younger Cluster never went on: another extension held it, and then its user deleted and recreated it.
	younger.UID = "another uid"
	w.Clusters[0] = younger
	if got := ask(t, gate, older); !strings.HasPrefix(got, "passes") {
		t.Errorf("after the younger one was recreated, the older one: %s", got)
	}
}

func TestThePromiseOfTheMemoryEnds(t *testing.T) {
	w := parttest.NewWorld(3)
	older, younger := parttest.NewCluster("older", 1, 2), parttest.NewCluster("younger", 1, 2)
	younger.CreationTimestamp = metav1.NewTime(parttest.Created.Add(time.Minute))
	w.Clusters = []clusterv1.Cluster{younger, older}
	gate := newGate(w)
	now := parttest.Created
	gate.now = func() time.Time { return now }
	gate.admitted[keyOf(&younger)] = now
	if got := ask(t, gate, older); !strings.HasPrefix(got, "wait") {
		t.Error(got)
	}
	now = now.Add(admittedFor + time.Second)
	if got := ask(t, gate, older); !strings.HasPrefix(got, "passes") {
		t.Error(got)
	}
	if len(gate.admitted) != 1 {
		t.Errorf("the gate remembers %v", gate.admitted)
	}
}

// Many Clusters at once, with hosts for some of them: exactly as many pass as fit.
func TestManyAtOnce(t *testing.T) {
	w := parttest.NewWorld(10)
	for i := range 8 {
		w.Clusters = append(w.Clusters, parttest.NewCluster(fmt.Sprintf("c%d", i), 1, 2))
	}
	gate := newGate(w)
	var mu sync.Mutex
	var passed []string
	var group sync.WaitGroup
	for _, cluster := range w.Clusters {
		group.Go(func() {
			for range 3 {
				if strings.HasPrefix(ask(t, gate, cluster), "passes") {
					mu.Lock()
					passed = append(passed, cluster.Name)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	if len(passed) != 3 {
		t.Errorf("%v passed, but there is room for 3", passed)
	}
}

func TestGateWaitsNoLongerThanItsCaller(t *testing.T) {
	gate := newGate(parttest.NewWorld(1))
	gate.turn <- struct{}{} // another call is being decided
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gate.create(ctx, &clusterv1.Cluster{})
	if err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("error is %v", err)
	}
}

func TestHostOf(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*infrav1.CapstanHost)
		want   State
	}{
		"a host that is off":     {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostOff }, Free},
		"available":              {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostAvailable }, Free},
		"a host without a phase": {func(*infrav1.CapstanHost) {}, Enrolling},
		"enrolling":              {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostEnrolling }, Enrolling},
		"a claimed host whose phase lags": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostAvailable, &infrav1.HostClaim{Cluster: "c"}
		}, Claimed},
		"a claimed host that is offline": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostOffline, &infrav1.HostClaim{Cluster: "c"}
		}, Claimed},
		"released": {
			func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{Cluster: "c", Released: true} }, Cleaning,
		},
		"cleaning": {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostCleaning }, Cleaning},
		"offline":  {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostOffline }, Offline},
		"a quarantined host with a claim": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostQuarantined, &infrav1.HostClaim{Released: true}
		}, Quarantined},
		"unschedulable": {
			func(h *infrav1.CapstanHost) { h.Status.Phase, h.Spec.Unschedulable = infrav1.HostOff, true }, Unschedulable,
		},
		"a host that is being deleted": {
			func(h *infrav1.CapstanHost) { h.Status.Phase, h.DeletionTimestamp = infrav1.HostOff, &now }, Unschedulable,
		},
		"a host in phase Claimed without a claim": {
			func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostClaimed },
			Enrolling,
		},
	} {
		host := &infrav1.CapstanHost{}
		c.change(host)
		got := hostOf(host)
		if got.State != c.want || (got.Cluster != "") != (c.want == Claimed) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

// TestANewClusterIsAskedAboutSoon: because of a new Cluster, its namespace requests hosts, which may be about to
// appear.
func TestANewClusterIsAskedAboutSoon(t *testing.T) {
	w := parttest.NewWorld(2)
	gate := newGate(w)
	cluster := parttest.NewCluster("demo", 1, 2)
	for age, want := range map[time.Duration]string{
		-time.Minute: "wait 5s", // the clock of the management cluster is ahead
		0:            "wait 1s",
		isNew:        "wait 5s",
	} {
		gate.now = func() time.Time { return parttest.Created.Add(age) }
		if got := ask(t, gate, cluster); !strings.HasPrefix(got, want+": cluster needs 3 hosts, 2 of 2 are free") {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
}
