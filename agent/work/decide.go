package work

import (
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// kind is a kind of work.
type kind string

const (
	// idle: there is nothing to do.
	idle kind = "idle"
	// bootstrapping: run the bootstrap data of the claim.
	bootstrapping kind = "bootstrap"
	// cleaning: clean the host after the claim.
	cleaning kind = "clean"
	// fencing: clean the host after a machine whose claim ended while the agent was away.
	fencing kind = "fence"
)

// task is what the host's object asks for.
type task struct {
	kind kind
	// claim is the claim's providerID; empty without a claim.
	claim string
}

// wanted returns the task that the host's API object asks for. It ignores what was already done.
func wanted(host *v1beta2.CapstanHost) task {
	if host == nil || host.Spec.Claim == nil {
		return task{kind: idle}
	}
	claim := host.Spec.Claim
	switch {
	case claim.Released && host.Spec.Supplier != "":
		return task{idle, claim.ProviderID} // the supplier destroys the whole host
	case claim.Released:
		return task{cleaning, claim.ProviderID}
	case claim.BootstrapReady:
		return task{bootstrapping, claim.ProviderID}
	}
	return task{idle, claim.ProviderID}
}

// state is what the journal records about a claim.
type state struct {
	outcome   journal.Outcome
	cleaned   bool
	leftovers []string
}

// done reports whether nothing is left to do for a task, according to the journal.
func done(t task, s state) bool {
	switch t.kind {
	case bootstrapping:
		// Once the host has been cleaned after this claim, it never runs the claim's bootstrap again, whatever an old
		// copy of the CapstanHost says.
		return s.outcome.Ended || s.cleaned
	case cleaning, fencing:
		return s.cleaned && len(s.leftovers) == 0
	}
	return true
}
