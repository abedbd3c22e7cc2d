package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// objects is a cache.
type objects struct {
	client.Reader
	hosts    []infrav1.CapstanHost
	machines []infrav1.CapstanMachine
	err      error
}

func (o objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *infrav1.CapstanHostList:
		l.Items = o.hosts
	case *infrav1.CapstanMachineList:
		l.Items = o.machines
		return o.err
	}
	return nil
}

func newHost(zone string, phase infrav1.HostPhase, version string) infrav1.CapstanHost {
	h := infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	h.Spec.Zone, h.Status.Phase = zone, phase
	if version != "" {
		h.Status.Agent = &infrav1.AgentReport{Version: version}
	}
	return h
}

func newMachine(reason, host string) infrav1.CapstanMachine {
	m := infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	m.Status.Host = host
	if reason != "" {
		conditions.Set(&m, metav1.Condition{
			Type: infrav1.HostClaimedCondition, Status: metav1.ConditionFalse, Reason: reason,
		})
	}
	return m
}

var yes = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func TestTheInventoryIsCounted(t *testing.T) {
	cordoned, foreign := newHost("a", infrav1.HostAvailable, "v1"), newHost("a", infrav1.HostAvailable, "v1")
	cordoned.Spec.Unschedulable = true
	foreign.Labels = map[string]string{clusterv1.WatchLabel: "others"}
	leaving, now := newMachine(infrav1.NoHostMatchesReason, ""), metav1.Now()
	leaving.DeletionTimestamp = &now
	in := NewInventory(objects{
		hosts: []infrav1.CapstanHost{
			cordoned, foreign, newHost("a", infrav1.HostAvailable, "v2"), newHost("", infrav1.HostOffline, "v1"),
			newHost("a", "", ""),
		},
		machines: []infrav1.CapstanMachine{
			newMachine(
				infrav1.NoHostMatchesReason,
				"",
			), newMachine(infrav1.NoHostMatchesReason, ""), newMachine("", ""),
			newMachine(infrav1.HostClaimedReason, "h1"), leaving,
		},
	}, watchfilter.Filter(""), yes)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(in)
	const want = `
# HELP capstan_host_agents Number of CapstanHosts by agent version, which is empty before the first report.
# TYPE capstan_host_agents gauge
capstan_host_agents{version=""} 1
capstan_host_agents{version="v1"} 3
capstan_host_agents{version="v2"} 1
# HELP capstan_hosts Number of CapstanHosts by phase.
# TYPE capstan_hosts gauge
capstan_hosts{namespace="default",phase="Available",zone="a"} 3
capstan_hosts{namespace="default",phase="Enrolling",zone="a"} 1
capstan_hosts{namespace="default",phase="Offline",zone=""} 1
# HELP capstan_hosts_unschedulable Number of CapstanHosts whose spec keeps new machines away.
# TYPE capstan_hosts_unschedulable gauge
capstan_hosts_unschedulable{namespace="default",zone="a"} 1
# HELP capstan_machines_waiting Number of CapstanMachines without a host, by the reason of their condition HostClaimed.
# TYPE capstan_machines_waiting gauge
capstan_machines_waiting{namespace="default",reason="NoHostMatches"} 2
capstan_machines_waiting{namespace="default",reason="NoReasonReported"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestAFilterLimitsWhatIsCounted(t *testing.T) {
	mine := newHost("a", infrav1.HostAvailable, "v1")
	mine.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	in := NewInventory(
		objects{hosts: []infrav1.CapstanHost{mine, newHost("a", infrav1.HostAvailable, "v1")}}, "mine", yes,
	)
	if n := testutil.CollectAndCount(in); n != 2 { // one of Hosts, one of Agents
		t.Errorf("%d metrics, want 2", n)
	}
}

func TestOnlyTheLeaderReports(t *testing.T) {
	in := NewInventory(objects{hosts: []infrav1.CapstanHost{newHost("a", "", "")}}, "", make(chan struct{}))
	if n := testutil.CollectAndCount(in); n != 0 {
		t.Errorf("%d metrics, want none", n)
	}
}

func TestACacheThatFailsIsAnError(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewInventory(objects{err: errors.New("not synced")}, "", yes))
	if _, err := registry.Gather(); err == nil ||
		!strings.Contains(err.Error(), "listing CapstanMachines: not synced") {
		t.Error(err)
	}
}
