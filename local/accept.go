package local

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/provider/claim"
)

// Remains says why a host is not reused after a machine, so that an administrator can decide whether to reuse it.
type Remains struct {
	// Host is the name of the host; Machine is the name of the machine that was on it.
	Host, Machine string
	// Why is the reason, as a sentence.
	Why string
	// Leftovers lists what was found on the host that was not there before the machine; it is empty if the agent did
	// not compare the host with its earlier state.
	Leftovers []string

	host  *infrav1.CapstanHost
	claim string // the providerID to accept
}

// WhatRemains returns why a host is not reused. It refuses a host that needs no decision.
func WhatRemains(ctx context.Context, c client.Reader, host client.ObjectKey) (Remains, error) {
	h, err := getHost(ctx, c, host)
	if err != nil {
		return Remains{}, err
	}
	return remains(h)
}

// Accept allows the host to be reused despite what remains. It applies only to the state that WhatRemains saw: if the
// host has changed since, Accept fails.
func Accept(ctx context.Context, c client.Client, r Remains) error {
	h := r.host.DeepCopy()
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.AcceptAnnotation, r.claim)
	if err := c.Patch(ctx, h, client.MergeFromWithOptions(r.host, client.MergeFromWithOptimisticLock{})); err != nil {
		return hint.Errorf("try again: the host has changed meanwhile", "accepting host %s: %w", h.Name, err)
	}
	return nil
}

// AcceptableHosts returns the names of the hosts in a namespace that need a decision.
func AcceptableHosts(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	list := &infrav1.CapstanHostList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	var names []string
	for i := range list.Items {
		if _, err := remains(&list.Items[i]); err == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// remains decides whether a host needs a decision, and why. Pure.
func remains(host *infrav1.CapstanHost) (Remains, error) {
	const list = "see: capstan host list"
	c := host.Spec.Claim
	switch {
	case host.Spec.Supplier != "":
		return Remains{}, hint.Errorf(list, "host %s is a local host: the dock recreates it", host.Name)
	case claim.Carried(host) != "":
		return carried(host)
	case c == nil:
		return Remains{}, hint.Errorf(list, "no machine claims host %s: there is nothing to accept", host.Name)
	case !c.Released:
		return Remains{}, hint.Errorf(
			"delete its machine first: capstan kubectl get machines -A",
			"machine %s is on host %s",
			c.Machine,
			host.Name,
		)
	case claim.Accepted(host):
		return Remains{}, hint.Errorf(list, "host %s is accepted already", host.Name)
	}
	r := Remains{Host: host.Name, Machine: c.Machine, host: host, claim: c.ProviderID}
	switch claim.Judge(host) {
	case claim.Left:
		r.Leftovers = claim.Cleaning(host).Leftovers
		r.Why = "it is not as it was before the machine"
	case claim.NotCompared:
		r.Why = "its agent did not compare it with its state before the machine, so what the machine left is unknown"
	case claim.ToReimage:
		r.Why = "its policy requires a new installation after each machine"
	default:
		return Remains{}, hint.Errorf(
			list,
			"the agent of host %s has not reported yet what is left: wait for it",
			host.Name,
		)
	}
	return r, nil
}

// carried makes the same decision as the function remains, for a host that has no claim but whose agent still has to
// clean up after a machine.
func carried(host *infrav1.CapstanHost) (Remains, error) {
	id, report := claim.Carried(host), host.Status.Agent.Cleaning
	switch {
	case host.Annotations[infrav1.AcceptAnnotation] == id:
		return Remains{}, hint.Errorf("see: capstan host list", "host %s is accepted already", host.Name)
	case report == nil || report.ProviderID != id || !report.Done || len(report.Leftovers) == 0:
		return Remains{}, hint.Errorf("see: capstan host list", "the agent of host %s is cleaning it: wait for it", host.Name)
	}
	return Remains{
		Host: host.Name, Machine: id, Leftovers: report.Leftovers, host: host, claim: id,
		Why: "its agent came back with a machine that has no claim here; accepting starts the cleaning",
	}, nil
}
