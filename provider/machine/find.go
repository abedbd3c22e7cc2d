package machine

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/step"
)

// find finds the hosts that the machine holds. The cache may not show a claim yet, or not any more: where a wrong
// answer would cost a host, the API server is asked as well.
func (r *Reconciler) find(ctx context.Context, s *scope) (step.Answer, error) {
	hosts, err := r.hosts(ctx, r.Client, s)
	if err != nil {
		return step.Answer{}, err
	}
	s.hosts = hosts
	s.hold(claim.Held(hosts, s.capstan))
	if s.host != nil || !mustHold(s.capstan) {
		return step.Next(), nil
	}
	if hosts, err = r.hosts(ctx, r.Reader, s); err != nil {
		return step.Answer{}, err
	}
	s.hold(claim.Held(hosts, s.capstan))
	return step.Next(), nil
}

// mustHold reports whether it has consequences that the machine holds no host: one that is being deleted loses its
// finalizer, and one that had a host is lost.
func mustHold(capstan *infrav1.CapstanMachine) bool {
	return !capstan.DeletionTimestamp.IsZero() || hadHost(capstan) != ""
}

// hadHost names the host that the machine claimed earlier. Empty: none, as far as spec and status say.
func hadHost(capstan *infrav1.CapstanMachine) string {
	if capstan.Status.Host != "" {
		return "host " + capstan.Status.Host
	}
	return capstan.Spec.ProviderID
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
