package machine

import (
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestKeep(t *testing.T) { // IM-63
	released := func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true }
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-01" })
	for name, c := range map[string]struct {
		edits    []change
		host     string
		lost     string
		released string // a host that is released after the step
		calls    []string
	}{
		"one host": {edits: []change{claimed("host-02")}, host: "host-02"},
		"two hosts: the second one is released": {
			edits: []change{claimed("host-02"), claimed("host-01")},
			host:  "host-01", released: "host-02", calls: []string{"patch CapstanHost"},
		},
		"a host that was released": {
			edits: []change{claimed("host-01", released)},
			lost:  "host host-01 was released from this machine", released: "host-01",
		},
		"a host that no longer has the claim": {edits: []change{had},
			lost: "host host-01 no longer has this machine's claim"},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(c.edits...), run: (*Reconciler).keep, calls: c.calls,
				check: func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
					got := ""
					if s.host != nil {
						got = s.host.Name
					}
					lost := s.lost != ""
					if got != c.host || !strings.HasPrefix(s.lost, c.lost) || lost != (c.lost != "") || answer.Stopped() != lost {
						t.Errorf("host %q, lost %q, stopped %t", got, s.lost, answer.Stopped())
					}
					if c.released != "" && !f.host(c.released).Spec.Claim.Released {
						t.Errorf("host %s is not released", c.released)
					}
				},
			}.do(t)
		})
	}
}
