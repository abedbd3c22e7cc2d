package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/step"
)

// find finds the hosts that the machine holds. The pool may be behind the API server. If a wrong answer would lose a
// host, find asks the API server for the host that the machine had.
func (r *Reconciler) find(ctx context.Context, s *scope) (step.Answer, error) {
	if err := r.Hosts.Read(ctx, s.capstan.Namespace); err != nil {
		return step.Answer{}, err
	}
	if leaving(s) { // otherwise claimHost does this
		if err := r.settle(ctx, s.capstan); err != nil {
			return step.Answer{}, err
		}
	}
	s.hold(r.Hosts.Held(s.capstan))
	if s.host != nil || !mustHold(s.capstan) {
		return step.Next(), nil
	}
	for _, name := range hadHosts(s.capstan) {
		host := &infrav1.CapstanHost{}
		err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.capstan.Namespace, Name: name}, host)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return step.Answer{}, fmt.Errorf("reading host %s: %w", name, err)
		case r.Filter.Matches(host) && claim.Holds(host, s.capstan):
			s.hold([]*infrav1.CapstanHost{host})
			return step.Next(), nil
		}
	}
	return step.Next(), nil
}

// mustHold reports whether holding no host has consequences for the machine: one that is being deleted loses its
// finalizer, and one that had a host counts as lost.
func mustHold(capstan *infrav1.CapstanMachine) bool {
	return !capstan.DeletionTimestamp.IsZero() || hadHost(capstan) != ""
}

// hadHost describes the host that the machine claimed earlier, by its name or the provider id. It returns "" if spec
// and status name none.
func hadHost(capstan *infrav1.CapstanMachine) string {
	if capstan.Status.Host != "" {
		return "host " + capstan.Status.Host
	}
	return capstan.Spec.ProviderID
}

// hadHosts returns the names of the hosts that the machine may have claimed, according to its spec and status.
func hadHosts(capstan *infrav1.CapstanMachine) []string {
	var names []string
	for _, name := range []string{capstan.Status.Host, claim.HostOf(capstan.Spec.ProviderID, capstan.Namespace)} {
		if name != "" && (len(names) == 0 || names[0] != name) {
			names = append(names, name)
		}
	}
	return names
}
