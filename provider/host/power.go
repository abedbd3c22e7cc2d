package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/supply"
)

const (
	// supplyTimeout bounds the calls to the supplier for one power-on or destruction.
	supplyTimeout = time.Minute
	// tokenLifetime is how long the agent of a new host has to get its own token.
	tokenLifetime = time.Hour
)

// power records the last power operation on a supplied host.
type power struct {
	// off is true if the host is known to be destroyed.
	off bool
	// providerID is the provider id of the claim for which the host was powered on. Empty if the host is off, or nothing
	// is known.
	providerID string
	// at is the time of the operation.
	at time.Time
	// host is the name of the CapstanHost.
	host types.NamespacedName
}

// power powers on a supplied host that is claimed. It destroys a host without a claim, once per process. A claimed host
// that has been silent for too long is powered on again; if it still runs, its agent gets a new token.
func (r *Reconciler) power(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if s.host.Spec.Supplier == "" || c != nil && c.Released {
		return step.Next(), nil
	}
	if !r.supplies(s.host) {
		s.obstacle = r.noSupplier(s.host)
		return step.Next(), nil
	}
	last := r.lastPower(s.host)
	switch {
	case s.taken: // it has no identity; s.obstacle says why
	case c == nil && !last.off:
		if wait := r.paced(s, pace.Destroy); wait > 0 {
			return step.StopFor(wait), nil
		}
		if err := r.destroy(ctx, s); err != nil {
			return step.Answer{}, err
		}
	case c == nil:
	case last.providerID != c.ProviderID || s.live == silent && r.Clock.Since(last.at) >= r.HeartbeatTimeout:
		if wait := r.paced(s, pace.PowerOn); wait > 0 {
			s.sooner(wait)
			return step.Next(), nil
		}
		return step.Next(), r.powerOn(ctx, s)
	}
	return step.Next(), nil
}

// paced returns how long an operation on the host must wait. If it must, paced sets the obstacle.
func (r *Reconciler) paced(s *scope, operation pace.Operation) time.Duration {
	wait := r.Pace.Ask(operation, s.host.UID)
	if wait > 0 {
		s.obstacle = &step.Obstacle{Reason: infrav1.RateLimitedReason, Message: fmt.Sprintf(
			"%s: waiting because of the rate limits (--host-rate and --each-host-rate of capstan-manager)", operation)}
	}
	return wait
}

func (r *Reconciler) powerOn(ctx context.Context, s *scope) (err error) {
	defer func() {
		if err != nil {
			s.obstacle = triedAgain(s, infrav1.HostStartingReason, "powering on", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, supplyTimeout)
	defer cancel()
	token, err := r.token(ctx, s.host)
	if err != nil {
		return err
	}
	config, err := supply.AgentConfig(r.Agents, s.host.Namespace, s.host.Name, token)
	if err != nil {
		return err
	}
	if _, err := r.Supplier.PowerOn(ctx, s.host.Name, config); err != nil {
		return fmt.Errorf("powering on: %w", err)
	}
	r.setPower(s.host, power{providerID: s.host.Spec.Claim.ProviderID, at: r.Clock.Now()})
	r.Recorder.Eventf(s.host, nil, "Normal", infrav1.PoweredOnEvent, "PowerOn", "powered on for machine %s",
		s.host.Spec.Claim.Machine)
	return nil
}

// token requests a token of the host's account.
func (r *Reconciler) token(ctx context.Context, host *infrav1.CapstanHost) (string, error) {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name},
	}
	request := epoch.TokenRequest(host, tokenLifetime)
	if err := r.Client.SubResource("token").Create(ctx, account, request); err != nil {
		if apierrors.IsNotFound(err) {
			r.forgetIdentity(host) // somebody deleted the account or the Secret: the next pass recreates it
		}
		return "", fmt.Errorf("requesting a token for ServiceAccount %s: %w", account.Name, err)
	}
	return request.Status.Token, nil
}

// destroy destroys the host, and checks that the supplier no longer lists it.
func (r *Reconciler) destroy(ctx context.Context, s *scope) (err error) {
	defer func() {
		if err != nil {
			s.obstacle = triedAgain(s, infrav1.CleaningReason, "destroying", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, supplyTimeout)
	defer cancel()
	if err := r.Supplier.Destroy(ctx, s.host.Name); err != nil {
		return fmt.Errorf("destroying: %w", err)
	}
	exist, err := r.Supplier.List(ctx)
	if err != nil {
		return fmt.Errorf("listing the supplier's hosts: %w", err)
	}
	if slices.Contains(exist, s.host.Name) {
		return errors.New("the supplier has destroyed the host but still lists it")
	}
	r.beats.forget(client.ObjectKeyFromObject(s.host))
	r.setPower(s.host, power{off: true, at: r.Clock.Now()})
	return nil
}

// triedAgain returns the obstacle for a failed call to the supplier.
func triedAgain(s *scope, reason, doing string, err error) *step.Obstacle {
	has := conditions.Get(s.host, infrav1.ReadyCondition)
	message := doing + " failed and is tried again: " + failure.Text(err)
	return &step.Obstacle{Reason: reason, Message: failure.Same(has, reason, message)}
}

// lastPower returns the last power operation of this process on the host, or the zero value if there was none.
func (r *Reconciler) lastPower(host *infrav1.CapstanHost) power {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.powered[host.UID]
}

func (r *Reconciler) setPower(host *infrav1.CapstanHost, p power) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.host = client.ObjectKeyFromObject(host)
	r.powered[host.UID] = p
}

// forgetPower drops the record of a host that no longer exists.
func (r *Reconciler) forgetPower(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.powered, func(_ types.UID, p power) bool { return p.host == host })
}

func (r *Reconciler) noSupplier(host *infrav1.CapstanHost) *step.Obstacle {
	if r.Supplier != nil {
		where := "none"
		if namespace := r.SupplyNamespace(host.Name); namespace != "" {
			where = "it in namespace " + namespace + " only"
		}
		return &step.Obstacle{Reason: infrav1.SupplierMissingReason, Message: fmt.Sprintf(
			"supplier %s supplies %s: delete this CapstanHost", host.Spec.Supplier, where)}
	}
	return &step.Obstacle{Reason: infrav1.SupplierMissingReason, Message: fmt.Sprintf(
		"this manager has no supplier %s: local hosts exist only on a plane of capstan up; delete this CapstanHost",
		host.Spec.Supplier)}
}
