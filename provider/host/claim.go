package host

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/handover"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// endClaim clears a released claim as soon as the host is proved clean: a supplied host when it is destroyed, an owned
// one when its agent reported for this claim that nothing is left.
func (r *Reconciler) endClaim(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if c == nil || !c.Released {
		return step.Next(), nil
	}
	if err := bootstrapdata.Remove(ctx, r.Reader, r.Client, s.host, c.ProviderID); err != nil {
		return step.Answer{}, err
	}
	switch {
	case s.host.Spec.Supplier == "":
		if report := claim.Cleaning(s.host); report == nil || !report.Done || len(report.Leftovers) > 0 {
			return step.Next(), nil // its status changes when there is more to know
		}
	case !r.supplies(s.host):
		s.obstacle = r.noSupplier(s.host)
		return step.Next(), nil
	default:
		if err := r.destroy(ctx, s); err != nil {
			return step.Answer{}, err
		}
		// What ran on the host may have kept the token.
		if err := epoch.End(ctx, r.Reader, r.Client, s.host, s.host.Spec.Epoch); err != nil {
			return step.Answer{}, err
		}
	}
	before := s.host.DeepCopy()
	s.host.Spec.Claim = nil
	s.host.Spec.Epoch++
	handover.Mark(s.host)
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return step.Answer{}, fmt.Errorf("clearing the claim: %w", err)
	}
	r.Recorder.Eventf(s.host, nil, "Normal", "Returned", "ClearClaim", "clean after machine %s, free again", c.Machine)
	return r.epoch(ctx, s) // at once: the agent of an owned host asks for a token of the new epoch now
}

// handover makes sure that the host is marked as its claim, and what its agent reports about an offer, ask for. A claim
// marks the host in the same write; what is left to see is whether the agent has accepted an offer.
func (r *Reconciler) handover(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.host.DeepCopy()
	handover.Mark(s.host)
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return step.Answer{}, fmt.Errorf("marking the host for a move of its cluster: %w", err)
	}
	return step.Next(), nil
}

// claimant finds out whether the machine that claims the host exists; another one of its name is not that. A claim
// without machine is not released by us: the machine may be on its way here, when objects move from another management
// cluster, and cleaning can't be undone.
func (r *Reconciler) claimant(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if c == nil || c.Released {
		return step.Next(), nil
	}
	machine := &infrav1.CapstanMachine{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.host.Namespace, Name: c.Machine}, machine)
	if client.IgnoreNotFound(err) != nil {
		return step.Answer{}, fmt.Errorf("reading CapstanMachine %s: %w", c.Machine, err)
	}
	s.orphaned = err != nil || !claim.Holds(s.host, machine)
	return step.Next(), nil
}
