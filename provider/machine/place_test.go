package machine

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestPick(t *testing.T) {
	zoneB := on("host-02", func(h *infrav1.CapstanHost) { h.Spec.Zone = "zone-b" })
	ssd := on("host-02", func(h *infrav1.CapstanHost) { h.Labels = map[string]string{"disk": "ssd"} })
	inDomain := on("owner", func(m *clusterv1.Machine) { m.Spec.FailureDomain = "zone-b" })
	leaving := on("owner", func(m *clusterv1.Machine) {
		m.DeletionTimestamp, m.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
	})
	selects := func(selector metav1.LabelSelector) change {
		return machineIs(func(m *infrav1.CapstanMachine) { m.Spec.HostSelector = &selector })
	}
	requires := func(hardware infrav1.HostRequirements) change {
		return machineIs(func(m *infrav1.CapstanMachine) { m.Spec.HostRequirements = hardware })
	}
	for name, c := range map[string]struct {
		edits                 []change
		host, reason, message string
		local                 bool // the cluster's balancer is the management plane's
	}{
		"any host":                     {host: "host-01"},
		"a host of the failure domain": {edits: []change{zoneB, inDomain}, host: "host-02"},
		"a host with the selected labels": {
			edits: []change{ssd, selects(metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}})}, host: "host-02",
		},
		"a host that reports the required hardware": {
			edits: []change{
				on("host-02", func(h *infrav1.CapstanHost) {
					h.Status.Agent = &infrav1.AgentReport{Architecture: "arm64", Processors: 8}
				}),
				requires(infrav1.HostRequirements{Architecture: "arm64", MinProcessors: 8}),
			},
			host: "host-02",
		},
		"no host reports the required hardware": {
			edits: []change{requires(infrav1.HostRequirements{MinDiskGiB: 1})}, reason: infrav1.NoHostMatchesReason,
			message: "0 of 2 hosts fit: 2 without the required hardware",
		},
		"the cluster's balancer reaches no host": {
			edits: []change{
				on("host-01", func(h *infrav1.CapstanHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: "true"} }),
				on("host-02", func(h *infrav1.CapstanHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: "true"} }),
			},
			local: true, reason: infrav1.NoHostMatchesReason, message: "0 of 2 hosts fit: 2 without the selected labels",
		},
		"a host that the cluster's balancer reaches": {
			edits: []change{
				on("host-01", func(h *infrav1.CapstanHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: "true"} }),
			},
			local: true, host: "host-02",
		},
		"no host is in the failure domain (IM-17)": {
			edits: []change{inDomain}, reason: infrav1.NoHostMatchesReason,
			message: "0 of 2 hosts fit: 2 in another zone; add hosts or free some",
		},
		"a selector that can't be used": {
			edits: []change{selects(metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Nonsense"}},
			})},
			reason: infrav1.NoHostMatchesReason, message: "correct the CapstanMachineTemplate",
		},
		"the Machine is being deleted": {
			edits: []change{leaving}, reason: infrav1.DeletingReason, message: "so no host is claimed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(c.edits...)...)
			s := f.scope()
			s.local = c.local
			host, obstacle, err := f.pick(s)
			if err != nil {
				t.Fatal(err)
			}
			if c.reason != "" {
				if host != nil || obstacle == nil || obstacle.Reason != c.reason || !strings.Contains(obstacle.Message, c.message) {
					t.Errorf("host %v, obstacle %+v", host, obstacle)
				}
				return
			}
			if obstacle != nil || host == nil || host.Before().Name != c.host {
				t.Errorf("host %v, obstacle %+v", host, obstacle)
			}
		})
	}
	t.Attr("rule", "IM-17 v1beta2")
}

// TestPlace also checks that a waiting machine causes no calls.
func TestPlace(t *testing.T) {
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-09" })
	noHosts := func(all map[string]client.Object) { delete(all, "host-01"); delete(all, "host-02") }
	for name, c := range map[string]struct {
		edits []change
		stops bool
	}{
		"a host fits":                           {},
		"no host fits":                          {edits: []change{noHosts}, stops: true},
		"the machine holds a host":              {edits: []change{claimed("host-01")}},
		"the machine had a host, which is gone": {edits: []change{had, noHosts}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(c.edits...)...)
			s := f.scope()
			answer, err := f.place(context.Background(), s)
			if err != nil || answer.Stopped() != c.stops || (s.obstacle != nil) != c.stops || len(f.calls) != 0 {
				t.Errorf("stopped %t, obstacle %+v, error %v, calls %v", answer.Stopped(), s.obstacle, err, f.calls)
			}
		})
	}
}
