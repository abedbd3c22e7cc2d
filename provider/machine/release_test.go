package machine

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestRelease(t *testing.T) { // IM-57, IM-59
	released := func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true }
	abandoned := func(h *infrav1.CapstanHost) {
		released(h)
		h.Annotations = map[string]string{infrav1.AbandonAnnotation: h.Spec.Claim.ProviderID}
	}
	toReimage := func(h *infrav1.CapstanHost) {
		released(h)
		h.Spec.Claim.Proof = infrav1.ProofReimage
		h.Status.Agent = &infrav1.AgentReport{Cleaning: &infrav1.CleaningReport{
			ProviderID: h.Spec.Claim.ProviderID, Done: true,
		}}
	}
	orphan := machineIs(func(m *infrav1.CapstanMachine) { m.OwnerReferences = nil })
	writes := []string{"patch CapstanHost"}
	for name, c := range map[string]struct {
		edits []change
		waits bool
		free  bool // no host is claimed
		calls []string
	}{
		"a host in use":                           {edits: []change{claimed("host-01")}, waits: true, calls: writes},
		"a host that is released already":         {edits: []change{claimed("host-01", released)}, waits: true},
		"a host that was given up":                {edits: []change{claimed("host-01", abandoned)}},
		"a cleaned host that must be reinstalled": {edits: []change{claimed("host-01", toReimage)}},
		"no host": {free: true},
		"a machine without owner does not wait (IM-62, D-09)": {
			edits: []change{claimed("host-01"), orphan}, calls: writes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(append(c.edits, deleted)...), run: (*Reconciler).release, calls: c.calls,
				check: func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
					if answer.Stopped() != c.waits || (s.waiting != "") != c.waits {
						t.Errorf("stopped %t, waiting for %q", answer.Stopped(), s.waiting)
					}
					claim := f.host("host-01").Spec.Claim
					if (claim == nil) != c.free || claim != nil && !claim.Released {
						t.Errorf("claim %+v", claim)
					}
				},
			}.do(t)
		})
	}
	t.Attr("rule", "IM-57 v1beta2")
	t.Attr("rule", "IM-62 v1beta2")
}

func TestWaitingMessage(t *testing.T) {
	host := func(supplier string, all ...metav1.Condition) *infrav1.CapstanHost {
		h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "host-01"}}
		h.Spec = infrav1.CapstanHostSpec{Supplier: supplier, Claim: &infrav1.HostClaim{ProviderID: "p"}}
		for _, c := range all {
			conditions.Set(h, c)
		}
		return h
	}
	left := no(infrav1.CleanCondition, infrav1.LeftoversFoundReason, "a mount is left")
	offline := no(infrav1.HostOnlineCondition, infrav1.HostOfflineReason, "")
	giveUp := infrav1.AbandonAnnotation + `=p" lets the machine be deleted`
	for name, c := range map[string]struct {
		host *infrav1.CapstanHost
		want []string
	}{
		"the host is being cleaned":     {host(""), []string{"host host-01 is being cleaned"}},
		"an owned host has leftovers":   {host("", left), []string{"quarantined: a mount is left", giveUp}},
		"a supplied host has leftovers": {host("dock", left), []string{"the host is destroyed and recreated"}},
		"an owned host is offline": {host("", offline),
			[]string{"its agent cleans it when the host is back", giveUp}},
		"a supplied host is offline": {host("dock", offline), []string{"host host-01 is being cleaned"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, want := range c.want {
				if got := waitingMessage(c.host); !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}
