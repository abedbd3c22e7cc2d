package local

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// after returns a host with a claim and its agent's report about the cleaning.
func after(claim *infrav1.HostClaim, report *infrav1.CleaningReport) *infrav1.CapstanHost {
	h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rack1"}}
	h.Spec.Zone, h.Spec.Claim = "z", claim
	if report != nil {
		report.ProviderID = claim.ProviderID
		h.Status.Agent = &infrav1.AgentReport{Cleaning: report,
			Bootstrap: &infrav1.BootstrapReport{ProviderID: claim.ProviderID}}
	}
	return h
}

func TestRemains(t *testing.T) {
	released := func(proof infrav1.CleaningProof) *infrav1.HostClaim {
		return &infrav1.HostClaim{Machine: "m", ProviderID: "capstan://default/rack1/1", Released: true, Proof: proof}
	}
	local := after(released(infrav1.ProofTrust), &infrav1.CleaningReport{Done: true, Leftovers: []string{"user evil"}})
	local.Spec.Supplier = infrav1.SupplierDock
	accepted := after(released(infrav1.ProofReimage), &infrav1.CleaningReport{Done: true})
	accepted.Annotations = map[string]string{infrav1.AcceptAnnotation: "capstan://default/rack1/1"}
	carries := func(r *infrav1.CleaningReport) *infrav1.CapstanHost {
		h := after(nil, nil)
		h.Status.Agent = &infrav1.AgentReport{Carries: "p", Cleaning: r}
		return h
	}
	again := carries(&infrav1.CleaningReport{ProviderID: "p", Done: true, Leftovers: []string{"mount /x"}})
	again.Annotations = map[string]string{infrav1.AcceptAnnotation: "p"}
	for name, c := range map[string]struct {
		host *infrav1.CapstanHost
		why  string
		left []string
		fail string
		// machine is the machine that was on the host.
		machine string
	}{
		"the agent found leftovers": {
			host: after(released(infrav1.ProofCompare), &infrav1.CleaningReport{Done: true, Leftovers: []string{"user evil"}}),
			why:  "not as it was", left: []string{"user evil"},
		},
		"the agent compared nothing": {
			host: after(released(infrav1.ProofCompare), &infrav1.CleaningReport{Done: true}), why: "did not compare",
		},
		"the host must be reinstalled": {
			host: after(released(infrav1.ProofReimage), &infrav1.CleaningReport{Done: true}), why: "new installation",
		},
		"the agent is cleaning the host": {
			host: after(released(infrav1.ProofCompare), &infrav1.CleaningReport{}), fail: "wait for it",
		},
		"the agent does not report": {host: after(released(infrav1.ProofCompare), nil), fail: "wait for it"},
		"a machine is on the host": {
			host: after(&infrav1.HostClaim{Machine: "m"}, nil), fail: "machine m is on host rack1",
		},
		"the agent came back with a machine that has no claim here": {
			host: carries(&infrav1.CleaningReport{ProviderID: "p", Done: true, Leftovers: []string{"mount /x"}}),
			why:  "no claim here", left: []string{"mount /x"}, machine: "p",
		},
		"the agent cleans up after a machine that has no claim here": {
			host: carries(&infrav1.CleaningReport{ProviderID: "p"}), fail: "wait for it",
		},
		"an accepted host whose machine has no claim here": {host: again, fail: "already"},
		"a free host":  {host: after(nil, nil), fail: "nothing to accept"},
		"a local host": {host: local, fail: "local"},
		"a released host that is accepted already": {host: accepted, fail: "already"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := remains(c.host)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || hint.Of(err) == "" {
					t.Errorf("got %+v, %v with the hint %q", r, err, hint.Of(err))
				}
				return
			}
			if err != nil || r.Machine != cmp.Or(c.machine, "m") ||
				!strings.Contains(r.Why, c.why) || !slices.Equal(r.Leftovers, c.left) {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

// TestAccept: a host is accepted for the claim that was read, and only if the host has not changed since then.
func TestAccept(t *testing.T) {
	left := after(&infrav1.HostClaim{Machine: "m", ProviderID: "capstan://default/rack1/1", Released: true},
		&infrav1.CleaningReport{Done: true, Leftovers: []string{"user evil"}})
	key := client.ObjectKeyFromObject(left)
	var refusal error
	c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(left).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if refusal != nil {
				return refusal
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	if names, err := AcceptableHosts(t.Context(), c, "default"); err != nil || !slices.Equal(names, []string{"rack1"}) {
		t.Errorf("the hosts that need a decision are %q, error %v", names, err)
	}
	if _, err := WhatRemains(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "none"}); hint.Of(err) == "" {
		t.Errorf("a host that does not exist: got error %v, want one with a hint", err)
	}
	old, err := WhatRemains(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	now := &infrav1.CapstanHost{}
	if err := c.Get(t.Context(), key, now); err != nil {
		t.Fatal(err)
	}
	now.Status.Agent.Cleaning.Leftovers = []string{"user evil", "suid /usr/bin/shell"}
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := Accept(t.Context(), c, old); err == nil || hint.Of(err) == "" {
		t.Errorf("accepting a host on which more was found since: got error %v, want one with a hint", err)
	}
	r, err := WhatRemains(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	refusal = errors.New("no right")
	if err := Accept(t.Context(), c, r); !errors.Is(err, refusal) || hint.Of(err) == "" {
		t.Errorf("a refused patch: got %v, want the patch's error with a hint", err)
	}
	refusal = nil
	if err := Accept(t.Context(), c, r); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, now); err != nil ||
		now.Annotations[infrav1.AcceptAnnotation] != "capstan://default/rack1/1" {
		t.Errorf("the annotations of the host are %v, error %v", now.Annotations, err)
	}
}
