package machine

import (
	"context"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/step"
)

// blind makes the watch show a host as it was before its claim.
func blind(host *infrav1.CapstanHost) {
	host.Spec.Claim = nil
	host.ResourceVersion = "1"
}

// The type nothing is an API server that has no hosts.
type nothing struct{ client.Reader }

func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestFind(t *testing.T) {
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-01" })
	moved := func(all map[string]client.Object) { // a machine with a new uid holds its host by the provider id (IM-63)
		m := all["machine"].(*infrav1.CapstanMachine)
		m.UID, m.Spec.ProviderID = "new", all["host-02"].(*infrav1.CapstanHost).Spec.Claim.ProviderID
	}
	const look = "get CapstanHost"
	identified := func(all map[string]client.Object) {
		host := all["host-01"].(*infrav1.CapstanHost)
		all["machine"].(*infrav1.CapstanMachine).Spec.ProviderID = host.Spec.Claim.ProviderID
	}
	thief := func(all map[string]client.Object) { // anybody with the right to create a CapstanMachine can do this
		identified(all)
		host := all["host-01"].(*infrav1.CapstanHost)
		host.Spec.Claim.Machine, host.Spec.Claim.MachineUID = "w9", "uid-of-w9"
	}
	gone := func(all map[string]client.Object) { delete(all, "host-01") }
	for name, c := range map[string]struct {
		edits []change
		blind bool
		want  string
		extra int
		calls []string
	}{
		"no host, and none is expected": {},
		"a host that the watch shows":   {edits: []change{claimed("host-02")}, want: "host-02"},
		"two hosts, because two controllers ran at once": {
			edits: []change{claimed("host-02"), claimed("host-01")}, want: "host-01", extra: 1,
		},
		"after a move": {edits: []change{claimed("host-02"), moved}, want: "host-02"},
		"a host that the watch doesn't show, but the machine's status names": {
			edits: []change{claimed("host-01"), had}, blind: true, want: "host-01", calls: []string{look},
		},
		"a host that the watch doesn't show, but the machine has its provider id": {
			edits: []change{claimed("host-01"), identified}, blind: true, want: "host-01", calls: []string{look},
		},
		"the machine had a host, which is free":         {edits: []change{had}, calls: []string{look}},
		"the machine had a host, which is gone":         {edits: []change{had, gone}, calls: []string{look}},
		"the machine had no host, and is being deleted": {edits: []change{deleted}},
		"the machine has the provider id of another machine": {
			edits: []change{claimed("host-01"), thief}, calls: []string{look},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(c.edits...), calls: c.calls,
				with: func(_ *fixture, s *scope) { s.host, s.extra = nil, nil },
				run:  (*Reconciler).find,
				prepare: func(f *fixture) {
					if err := f.Hosts.Read(t.Context(), ns); err != nil { // before the claim exists
						t.Fatal(err)
					}
					f.calls = nil
					if c.blind {
						f.Hosts, f.stale = pool.New(nothing{f.Client}, ""), blind
					}
				},
				check: func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
					got := ""
					if s.host != nil {
						got = s.host.Name
					}
					if got != c.want || len(s.extra) != c.extra || answer.Stopped() {
						t.Errorf("host %q, %d further ones, stopped %t", got, len(s.extra), answer.Stopped())
					}
				},
			}.do(t)
		})
	}
}

// TestTheInventoryIsReadOnce checks that a claim of an earlier process counts although the watch doesn't show it, and
// that no pass lists the hosts again.
func TestTheInventoryIsReadOnce(t *testing.T) {
	f := newFixture(t, world(claimed("host-01"))...)
	f.stale = blind
	for n, want := range [][]string{{"list CapstanHostList"}, nil, nil} {
		f.calls = nil
		s := f.scope()
		s.host = nil
		if _, err := f.find(t.Context(), s); err != nil || s.host == nil || s.host.Name != "host-01" {
			t.Errorf("pass %d: error %v, host %v", n, err, s.host)
		}
		if !slices.Equal(f.calls, want) {
			t.Errorf("pass %d: calls %q, want %q", n, f.calls, want)
		}
	}
}
