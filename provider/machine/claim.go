package machine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/handover"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/step"
)

// claimTries bounds how many hosts one pass tries to claim. The pass tries another host if the picked one changed in
// the meantime.
const claimTries = 5

// claimsPaced is the message of a machine that waits for its turn.
const claimsPaced = "waiting because of the rate limit for claims (--host-rate of capstan-manager)"

// claimHost claims a host for a machine that never had one.
//
// A claim is a single patch that fails if the host has changed, so a host has at most one claimant. Two things ensure
// that a machine has at most one host: the pool knows what this process has claimed, and settle looks up claims whose
// outcome is unknown.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host != nil || hadHost(s.capstan) != "" {
		return step.Next(), nil
	}
	if err := r.settle(ctx, s.capstan); err != nil {
		return step.Answer{}, err
	}
	if s.hold(r.Hosts.Held(s.capstan)); s.host != nil {
		return step.Next(), nil
	}
	if wait := r.Pace.AskForAny(pace.Claim, s.capstan.UID); wait > 0 {
		s.obstacle = &step.Obstacle{Reason: infrav1.RateLimitedReason, Message: claimsPaced, Brief: true}
		return step.StopFor(wait), nil
	}
	for range claimTries {
		pick, obstacle, err := r.pick(s)
		if err != nil {
			return step.Answer{}, err
		}
		if obstacle != nil {
			s.obstacle = obstacle
			return step.Stop(), nil
		}
		host, err := r.write(ctx, s.capstan, pick)
		if err != nil {
			return step.Answer{}, err
		}
		if host != nil {
			s.host = host
			r.Recorder.Eventf(s.capstan, host, "Normal", infrav1.HostClaimedEvent, "Claim", "claimed host %s in zone %s",
				host.Name, host.Spec.Zone)
			return step.Next(), nil
		}
	}
	return step.Answer{}, fmt.Errorf("hosts changed %d times during the claim: the claim is retried", claimTries)
}

// pick sets a host aside for the machine, or returns the obstacle.
func (r *Reconciler) pick(s *scope) (*pool.Pick, *step.Obstacle, error) {
	request, obstacle := plan(s)
	if obstacle != nil {
		return nil, obstacle, nil
	}
	pick, why, err := r.Hosts.Pick(s.capstan, request, func(host *infrav1.CapstanHost) {
		host.Spec.Claim = claim.New(host, s.capstan, s.machine)
		host.Spec.Claim.Proof = claim.Proof(host, r.Proof)
		host.Spec.Claim.Bundles = claim.Bundles(host, r.Bundles)
		handover.Mark(host)
	})
	if err == nil && pick == nil {
		return nil, noHost(why), nil
	}
	return pick, nil, err
}

// write writes a claim and returns the claimed host, or nil if the host had changed and does not belong to the machine.
func (r *Reconciler) write(
	ctx context.Context, capstan *infrav1.CapstanMachine, pick *pool.Pick,
) (*infrav1.CapstanHost, error) {
	host := pick.After()
	locked := client.MergeFromWithOptions(pick.Before(), client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Patch(ctx, host, locked); {
	case err == nil:
		r.Hosts.Claimed(pick, host)
		return host, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return r.lookUp(ctx, capstan, pick)
	case refused(err):
		r.Hosts.Return(pick)
		return nil, fmt.Errorf("claiming host %s: %w", pick.Before().Name, err)
	default:
		r.Hosts.Lose(pick)
		return nil, fmt.Errorf("claiming host %s: %w", pick.Before().Name, err)
	}
}

// lookUp reads a host from the API server after a claim conflicted, and returns the host if the machine holds it. If
// the host has changed since it was picked, the claim of that pick can no longer succeed. If it has not changed, and an
// earlier attempt at the same claim may still be under way, the outcome is unknown: the pool keeps the claim as one
// with an unknown outcome, and lookUp returns an error.
func (r *Reconciler) lookUp(
	ctx context.Context, capstan *infrav1.CapstanMachine, pick *pool.Pick,
) (*infrav1.CapstanHost, error) {
	host := &infrav1.CapstanHost{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(pick.Before()), host)
	switch {
	case apierrors.IsNotFound(err):
		r.Hosts.Changed(pick, nil)
		return nil, nil
	case err != nil:
		r.Hosts.Lose(pick)
		return nil, fmt.Errorf("reading host %s, which changed during the claim: %w", pick.Before().Name, err)
	}
	if same(host, pick.Before()) && r.Hosts.Lost(capstan) == pick {
		return nil, fmt.Errorf("the outcome of the claim of host %s is not known yet: the claim is retried", host.Name)
	}
	r.Hosts.Changed(pick, host)
	if r.Filter.Matches(host) && claim.Holds(host, capstan) {
		return host, nil
	}
	return nil, nil
}

// settle finds out the outcome of a claim whose answer was lost. If the host is unchanged, settle writes the same claim
// again: the first one may still be on its way, and only one of the two can succeed.
func (r *Reconciler) settle(ctx context.Context, capstan *infrav1.CapstanMachine) error {
	pick := r.Hosts.Lost(capstan)
	if pick == nil {
		return nil
	}
	before, host := pick.Before(), &infrav1.CapstanHost{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(before), host)
	switch {
	case apierrors.IsNotFound(err):
		r.Hosts.Changed(pick, nil)
	case err != nil:
		return fmt.Errorf("checking whether host %s was claimed: %w", before.Name, err)
	case same(host, before):
		_, err := r.write(ctx, capstan, pick)
		return err
	default:
		r.Hosts.Changed(pick, host)
	}
	return nil
}

// same reports whether the host is unchanged since it was seen before.
func same(host, before *infrav1.CapstanHost) bool {
	return host.UID == before.UID && host.ResourceVersion == before.ResourceVersion
}

// refused reports whether the error proves that the API server did not and will not carry out the request.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
