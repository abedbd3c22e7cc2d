package machine

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// blind clears the claims in what the cache shows.
func blind(list *infrav1.CapstanHostList) {
	for i := range list.Items {
		list.Items[i].Spec.Claim = nil
	}
}

func TestFind(t *testing.T) {
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-01" })
	moved := func(all map[string]client.Object) { // a machine with a new uid has its host by its provider id (IM-63)
		m := all["machine"].(*infrav1.CapstanMachine)
		m.UID, m.Spec.ProviderID = "new", all["host-02"].(*infrav1.CapstanHost).Spec.Claim.ProviderID
	}
	const list = "list CapstanHostList"
	for name, c := range map[string]struct {
		edits []change
		blind bool
		want  string
		extra int
		calls []string
	}{
		"none, and none is expected": {calls: []string{list}},
		"one in the cache":           {edits: []change{claimed("host-02")}, want: "host-02", calls: []string{list}},
		"two: controllers ran at once": {
			edits: []change{claimed("host-02"), claimed("host-01")},
			want:  "host-01", extra: 1, calls: []string{list},
		},
		"after a move": {edits: []change{claimed("host-02"), moved}, want: "host-02", calls: []string{list}},
		"one that the cache doesn't show, of a machine that had one": {
			edits: []change{claimed("host-01"), had}, blind: true, want: "host-01", calls: []string{list, list},
		},
		"one that the cache doesn't show, of a machine in deletion": {
			edits: []change{claimed("host-01"), deleted}, blind: true, want: "host-01", calls: []string{list, list},
		},
		"one that the cache doesn't show, of a machine that may never have had one: claiming looks again": {
			edits: []change{claimed("host-01")}, blind: true, calls: []string{list},
		},
		"it had one, which is gone": {edits: []change{had}, calls: []string{list, list}},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(c.edits...), calls: c.calls, with: func(s *scope) { s.host, s.extra, s.hosts = nil, nil, nil },
				run: (*Reconciler).find,
				prepare: func(f *fixture) {
					if c.blind {
						f.stale = blind
					}
				},
				check: func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
					got := ""
					if s.host != nil {
						got = s.host.Name
					}
					if got != c.want || len(s.extra) != c.extra || len(s.hosts) != 2 || answer.Stopped() {
						t.Errorf("host %q, %d further ones, inventory of %d, stopped %t",
							got, len(s.extra), len(s.hosts), answer.Stopped())
					}
				},
			}.do(t)
		})
	}
}
