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

// baseline copies the baseline from the agent's report to the claim, once. The agent records it before the machine
// runs, and waits for this copy: a machine with root access to the host could replace the agent's own copy and its
// report.
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

// endClaim clears a released claim as soon as the host is clean. A supplied host is clean when it is destroyed. An
// owned one is clean when its agent has given the proof that the claim requires (see claim.Judge), or somebody has
// accepted the host as clean.
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
			return step.Next(), nil // a change of the host's status starts the next pass
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
	if claim.Accepted(s.host) { // the agent may be offline and sees the annotation later
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
		"available again after machine %s: %s",
		c.Machine,
		why,
	)
	return r.epoch(ctx, s) // at once, because the agent of an owned host now requests a token of the new epoch
}

// proved describes exactly what is known about the host at the end of its claim.
func proved(host *infrav1.CapstanHost) string {
	switch c := host.Spec.Claim; {
	case host.Spec.Supplier != "":
		return "destroyed and recreated"
	case claim.Accepted(host):
		return "accepted by annotation " + infrav1.AcceptAnnotation
	case c.Proof == infrav1.ProofCompare && c.Baseline != "":
		return "clean: it is as it was before the machine"
	default:
		return "clean: nothing of a Kubernetes node is left"
	}
}

// handover updates the host's label and annotations for a move of its cluster. Writing a claim already does this, so
// usually only an accepted offer changes something.
func (r *Reconciler) handover(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.host.DeepCopy()
	handover.Mark(s.host)
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return step.Answer{}, fmt.Errorf("marking the host for a move of its cluster: %w", err)
	}
	return step.Next(), nil
}

// claimant finds out whether the machine that claims the host exists; another machine of the same name does not count.
// If the machine does not exist, we don't release the claim: the machine may still arrive from another management
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
