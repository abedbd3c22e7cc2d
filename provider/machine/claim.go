package machine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/handover"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/placement"
	"github.com/capstan-dev/capstan/provider/step"
)

// claimTries bounds how often another host is tried in one pass when a host changes while it is being claimed.
const claimTries = 5

// claimHost finds the host that the machine holds, or picks and claims one.
//
// A claim is one update of one object that fails if the object changed, so a host has at most one claimant. That a machine has at most
// one host rests on looking at the API server, not at the cache, for an earlier claim whose answer was lost.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (step.Answer, error) {
	hosts, err := r.hosts(ctx, r.Client, s)
	if err != nil {
		return step.Answer{}, err
	}
	if held := claim.Held(hosts, s.capstan); len(held) > 0 {
		return r.hold(ctx, s, held)
	}
	if hadHost(s.capstan) == "" {
		if answer, err := r.mayClaim(ctx, s, hosts); answer.Stopped() || err != nil {
			return answer, err
		}
	}
	r.claiming.Lock()
	defer r.claiming.Unlock()
	for range claimTries {
		if hosts, err = r.hosts(ctx, r.Reader, s); err != nil {
			return step.Answer{}, err
		}
		if held := claim.Held(hosts, s.capstan); len(held) > 0 {
			return r.hold(ctx, s, held)
		}
		if once := hadHost(s.capstan); once != "" {
			// Its computer may still run what the bootstrap data made. A second instance would be one too many (IM-63).
			s.lost = fmt.Sprintf("%s no longer has the claim of this machine: delete the Machine to get another host", once)
			return step.Stop(), nil
		}
		if answer, err := r.mayClaim(ctx, s, hosts); answer.Stopped() || err != nil {
			return answer, err
		}
		request, err := requestFor(s)
		if err != nil {
			return step.Answer{}, err
		}
		host, _ := placement.Place(hosts, request)
		before := host.DeepCopy()
		host.Spec.Claim = claim.New(host, s.capstan, s.machine)
		handover.Mark(host)
		switch err := patch.Object(ctx, r.Client, before, host, patch.Locked); {
		case err == nil:
			s.host = host
			r.Recorder.Eventf(s.capstan, host, "Normal", "HostClaimed", "Claim", "claimed host %s in zone %s", host.Name, host.Spec.Zone)
			return step.Next(), nil
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			continue
		default:
			return step.Answer{}, fmt.Errorf("claiming host %s: %w", host.Name, err)
		}
	}
	return step.Answer{}, fmt.Errorf("hosts changed %d times while one was being claimed: another try follows", claimTries)
}

// hadHost names the host that the machine claimed earlier. Empty: none, as far as spec and status tell.
func hadHost(capstan *infrav1.CapstanMachine) string {
	if capstan.Status.Host != "" {
		return "host " + capstan.Status.Host
	}
	return capstan.Spec.ProviderID
}

// mayClaim stops if the machine should not or can't get a host now: it is leaving, no host fits, or its bootstrap data isn't there.
func (r *Reconciler) mayClaim(ctx context.Context, s *scope, hosts []infrav1.CapstanHost) (step.Answer, error) {
	if !s.machine.DeletionTimestamp.IsZero() {
		s.wait = &wait{reason: infrav1.DeletingReason, message: "the Machine is being deleted: no host is claimed any more"}
		return step.Stop(), nil
	}
	request, err := requestFor(s)
	if err != nil {
		s.wait = &wait{reason: infrav1.NoHostMatchesReason, message: err.Error()}
		return step.Stop(), nil
	}
	if host, why := placement.Place(hosts, request); host == nil {
		s.wait = &wait{
			reason:  infrav1.NoHostMatchesReason,
			message: why.String() + "; add hosts or free some, then placement is tried again",
		}
		return step.Stop(), nil
	}
	return step.Next(), r.loadData(ctx, s)
}

// loadData reads the bootstrap data: before a host is claimed, so that no host is held for data that isn't there.
func (r *Reconciler) loadData(ctx context.Context, s *scope) error {
	if s.data != nil {
		return nil
	}
	data, err := bootstrapdata.Read(ctx, r.Reader, types.NamespacedName{
		Namespace: s.capstan.Namespace, Name: *s.machine.Spec.Bootstrap.DataSecretName,
	})
	if err != nil {
		if apierrors.IsNotFound(err) && s.host == nil {
			s.wait = &wait{
				reason:  infrav1.WaitingForBootstrapDataReason,
				message: fmt.Sprintf("Secret %s with the bootstrap data doesn't exist", *s.machine.Spec.Bootstrap.DataSecretName),
			}
		}
		return err
	}
	s.data = data
	return nil
}

// hold takes the first of the hosts that the machine holds, and releases the others.
func (r *Reconciler) hold(ctx context.Context, s *scope, held []*infrav1.CapstanHost) (step.Answer, error) {
	var errs []error
	for _, extra := range held[1:] {
		errs = append(errs, r.releaseHost(ctx, extra))
	}
	if err := errors.Join(errs...); err != nil {
		return step.Answer{}, err
	}
	if held[0].Spec.Claim.Released {
		s.lost = fmt.Sprintf("host %s was released from this machine: delete the Machine to get another host", held[0].Name)
		return step.Stop(), nil
	}
	s.host = held[0]
	return step.Next(), nil
}

// hosts returns the inventory of the machine's namespace.
func (r *Reconciler) hosts(ctx context.Context, reader client.Reader, s *scope) ([]infrav1.CapstanHost, error) {
	list := &infrav1.CapstanHostList{}
	if err := reader.List(ctx, list, client.InNamespace(s.capstan.Namespace)); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	ours := list.Items[:0]
	for _, host := range list.Items {
		if r.Filter.Matches(&host) {
			ours = append(ours, host)
		}
	}
	return ours, nil
}

// requestFor says what host the machine needs (IM-17).
func requestFor(s *scope) (placement.Request, error) {
	request := placement.Request{
		Namespace:    s.capstan.Namespace,
		Cluster:      s.machine.Spec.ClusterName,
		ControlPlane: util.IsControlPlaneMachine(s.machine),
		Zone:         s.machine.Spec.FailureDomain,
		Version:      s.machine.Spec.Version,
	}
	if s.capstan.Spec.HostSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.capstan.Spec.HostSelector)
		if err != nil {
			return request, fmt.Errorf("spec.hostSelector can't be used: %w; correct the CapstanMachineTemplate", err)
		}
		request.Selector = selector
	} else {
		request.Selector = labels.Everything()
	}
	return request, nil
}
