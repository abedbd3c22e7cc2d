package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// release marks the claim as released and waits until the host is clean and its claim is cleared (IM-57), or until an
// administrator has given up on the host.
//
// If the machine has no owner, the contract requires that the finalizer is removed without deleting infrastructure
// (IM-62). release then marks the claim as released anyway, but does not wait: the mark only changes our own inventory,
// and without it the host would be lost for everybody.
func (r *Reconciler) release(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host == nil {
		return step.Next(), nil
	}
	if !s.host.Spec.Claim.Released {
		if wait := r.Pace.Ask(pace.Release, s.host.UID); wait > 0 {
			s.waiting = fmt.Sprintf("the release of host %s waits because of the rate limits (--host-rate and "+
				"--each-host-rate of capstan-manager)", s.host.Name)
			return step.StopFor(wait), nil
		}
		if err := r.releaseHost(ctx, s.host); err != nil {
			return step.Answer{}, err
		}
		r.Recorder.Eventf(s.capstan, s.host, "Normal", infrav1.HostReleasedEvent, "Release", "released host %s", s.host.Name)
	}
	if !s.owned {
		return step.Next(), nil
	}
	if claim.Abandoned(s.host) {
		r.Recorder.Eventf(s.capstan, s.host, "Warning", infrav1.HostAbandonedEvent, "Release",
			"host %s was not cleaned: annotation %s abandoned it, and it stays out of the pool", s.host.Name,
			infrav1.AbandonAnnotation)
		return step.Next(), nil
	}
	if s.host.Spec.Supplier == "" && claim.Judge(s.host) == claim.ToReimage {
		return step.Next(), nil // nothing is left to do for the machine; the host stays out of the pool
	}
	s.waiting = waitingMessage(s.host)
	return step.Stop(), nil
}

func (r *Reconciler) releaseHost(ctx context.Context, host *infrav1.CapstanHost) error {
	before := host.DeepCopy()
	host.Spec.Claim.Released = true
	if err := patch.Object(ctx, r.Client, before, host, patch.Locked); err != nil {
		return fmt.Errorf("releasing host %s: %w", host.Name, err)
	}
	return nil
}

// wayOut returns how a deletion can finish if the host never becomes clean.
func wayOut(host *infrav1.CapstanHost) string {
	if host.Spec.Supplier != "" {
		return "the host is destroyed and recreated"
	}
	return fmt.Sprintf("if that never happens, \"kubectl annotate capstanhost -n %s %s %s=%s\" lets the machine be "+
		"deleted, and the host stays out of the pool",
		host.Namespace, host.Name, infrav1.AbandonAnnotation, host.Spec.Claim.ProviderID)
}

// waitingMessage returns what a deletion waits for.
func waitingMessage(host *infrav1.CapstanHost) string {
	if c := conditions.Get(host, infrav1.CleanCondition); c != nil &&
		(c.Reason == infrav1.LeftoversFoundReason || c.Reason == infrav1.NotComparedReason) {
		return fmt.Sprintf("host %s is quarantined: %s; %s", host.Name, c.Message, wayOut(host))
	}
	if c := conditions.Get(host, infrav1.HostOnlineCondition); c != nil && c.Status == metav1.ConditionFalse &&
		host.Spec.Supplier == "" {
		return fmt.Sprintf("host %s is offline: its agent cleans it when the host is back; %s", host.Name, wayOut(host))
	}
	return fmt.Sprintf("host %s is being cleaned", host.Name)
}
