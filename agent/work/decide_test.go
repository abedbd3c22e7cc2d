package work

import (
	"testing"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

func TestWanted(t *testing.T) {
	const id = "capstan://default/h1/0a1b2c3d"
	host := func(supplier string, change func(*v1beta2.HostClaim)) *v1beta2.CapstanHost {
		h := &v1beta2.CapstanHost{Spec: v1beta2.CapstanHostSpec{Supplier: supplier}}
		if change != nil {
			h.Spec.Claim = &v1beta2.HostClaim{ProviderID: id}
			change(h.Spec.Claim)
		}
		return h
	}
	cases := map[string]struct {
		host *v1beta2.CapstanHost
		want task
	}{
		"a host that was deleted":        {nil, task{idle, ""}},
		"nobody claims the host":         {host("", nil), task{idle, ""}},
		"a claim without bootstrap data": {host("", func(*v1beta2.HostClaim) {}), task{idle, id}},
		"a claim with bootstrap data": {host("", func(c *v1beta2.HostClaim) { c.BootstrapReady = true }),
			task{bootstrapping, id}},
		"a claimed supplied host": {host("dock", func(c *v1beta2.HostClaim) { c.BootstrapReady = true }),
			task{bootstrapping, id}},
		"released": {
			host("", func(c *v1beta2.HostClaim) { c.BootstrapReady, c.Released = true, true }), task{cleaning, id},
		},
		"released before there was data": {host("", func(c *v1beta2.HostClaim) { c.Released = true }),
			task{cleaning, id}},
		"a supplied host is destroyed by its supplier": {
			host("dock", func(c *v1beta2.HostClaim) { c.BootstrapReady, c.Released = true, true }), task{idle, id},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := wanted(c.host); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDone(t *testing.T) {
	succeeded := journal.Outcome{Ended: true, Succeeded: true}
	cases := map[string]struct {
		kind  kind
		state state
		want  bool
	}{
		"nothing was done":                     {bootstrapping, state{}, false},
		"the bootstrap succeeded":              {bootstrapping, state{outcome: succeeded}, true},
		"the bootstrap failed, which is final": {bootstrapping, state{outcome: journal.Outcome{Ended: true}}, true},
		"the host was cleaned after the claim": {bootstrapping, state{cleaned: true}, true},
		"the host was not cleaned":             {cleaning, state{outcome: succeeded}, false},
		"the host was cleaned":                 {cleaning, state{outcome: succeeded, cleaned: true}, true},
		"the host was cleaned, but with leftovers": {cleaning,
			state{cleaned: true, leftovers: []string{"process 1"}}, false},
		"nothing to do": {idle, state{}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := done(task{kind: c.kind}, c.state); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
