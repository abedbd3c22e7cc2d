package host

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/handover"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// baseline writes into the claim what the agent saw before the machine came, once. The agent waits for that: a machine
// that is root on the host can exchange the agent's own copy, and what it has reported.
func (r *Reconciler) baseline(ctx context.Context, s *scope) (step.Answer, error) {
	c, report := s.host.Spec.Claim, claim.Bootstrap(s.host)
	if c == nil || c.Released || c.Proof != infrav1.ProofCompare || c.Baseline != "" || report == nil ||
		report.Baseline == "" {
		return step.Next(), nil
	}
	before := s.host.DeepCopy()
	c.Baseline = report.Baseline
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return step.Answer{}, fmt.Errorf("keeping the baseline of the claim: %w", err)
	}
	return step.Next(), nil
}

// endClaim clears a released claim as soon as the host is clean: a supplied host when it is destroyed, an owned one
// when its agent has proved it as the claim asks for (see claim.Judge), or somebody has accepted it.
func (r *Reconciler) endClaim(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if c == nil || !c.Released {
		return step.Next(), nil
	}
	r.Metrics.Released(s.host)
	if err := bootstrapdata.Remove(ctx, r.Reader, r.Client, s.host, c.ProviderID); err != nil {
		return step.Answer{}, err
	}
	switch {
	case s.host.Spec.Supplier == "":
		if claim.Judge(s.host) != claim.Clean {
			return step.Next(), nil // its status changes when there is more to know
		}
	case !r.supplies(s.host):
		s.obstacle = r.noSupplier(s.host)
		return step.Next(), nil
	default:
		if wait := r.paced(s, pace.Destroy); wait > 0 {
			return step.StopFor(wait), nil
		}
		if err := r.destroy(ctx, s); err != nil {
			return step.Answer{}, err
		}
		// What ran on the host may have kept the token.
		if err := epoch.End(ctx, r.Reader, r.Client, s.host, s.host.Spec.Epoch); err != nil {
			return step.Answer{}, err
		}
	}
	why := proved(s.host)
	before := s.host.DeepCopy()
	if claim.Accepted(s.host) { // the agent may be away, and finds it later
		metav1.SetMetaDataAnnotation(&s.host.ObjectMeta, infrav1.AcceptedAnnotation, c.ProviderID)
	}
	s.host.Spec.Claim = nil
	s.host.Spec.Epoch++
	delete(s.host.Annotations, infrav1.AcceptAnnotation)
	handover.Mark(s.host)
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return step.Answer{}, fmt.Errorf("clearing the claim: %w", err)
	}
	r.Metrics.Cleaned(s.host)
	r.Recorder.Eventf(
		s.host,
		nil,
		"Normal",
		infrav1.ReturnedEvent,
		"ClearClaim",
		"free again after machine %s: %s",
		c.Machine,
		why,
	)
	return r.epoch(ctx, s) // at once: the agent of an owned host asks for a token of the new epoch now
}

// proved says what is known about a host whose claim ends, and no more.
func proved(host *infrav1.CapstanHost) string {
	switch c := host.Spec.Claim; {
	case host.Spec.Supplier != "":
		return "destroyed and made again"
	case claim.Accepted(host):
		return "accepted by annotation " + infrav1.AcceptAnnotation
	case c.Proof == infrav1.ProofCompare && c.Baseline != "":
		return "clean, it is as it was before"
	default:
		return "clean, nothing of a Kubernetes node is left"
	}
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
