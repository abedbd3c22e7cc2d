package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Check describes one check.
type Check struct {
	// Name of the check, in words with dashes.
	Name string `json:"name"`
	// Rules of the contract that it checks.
	Rules []string `json:"rules"`
	// Doc says in one sentence what should hold.
	Doc string `json:"doc"`
	// Requires lists what must hold before the check can run. Otherwise the check is skipped.
	Requires []Requirement `json:"requires,omitempty"`
}

// Requirement is something that a check requires from the extension or from a handler.
type Requirement string

// The requirements.
const (
	// RequiresDiscovery means that the extension has answered Discovery.
	RequiresDiscovery Requirement = "discovery"
	// RequiresHandler means a handler of a hook in the catalog. The check runs once for each such handler.
	RequiresHandler Requirement = "handler"
	// RequiresAnswer means that the handler has answered a valid request with the response of its hook.
	RequiresAnswer Requirement = "answer"
	// RequiresSuccess means that this answer has the status Success.
	RequiresSuccess Requirement = "success"
	// RequiresContent means a hook whose responses have more than status and message.
	RequiresContent Requirement = "content"
	// RequiresCluster means a hook whose requests contain a Cluster.
	RequiresCluster Requirement = "cluster"
)

// requirement defines when a Requirement is met.
type requirement struct {
	// check is the name of the check that determines whether the requirement is met. If empty, the hook determines it.
	check string
	// handler reports whether the requirement applies to a handler. Otherwise it applies to the extension as a whole.
	handler bool
	// met reports whether the requirement is met. The handler is nil for a check of the extension as a whole.
	met func(*probe, *handler) bool
	// missing says why a check is skipped if the requirement is not met.
	missing string
}

var requirements = map[Requirement]requirement{
	RequiresDiscovery: {
		check: "discovery", missing: "there is no discovery",
		met: func(p *probe, _ *handler) bool { return p.found != nil },
	},
	RequiresHandler: {
		check: "discovery", handler: true, missing: "there is no handler",
		met: func(_ *probe, h *handler) bool { return h != nil },
	},
	RequiresAnswer: {
		check: "answers", handler: true, missing: "there is no answer",
		met: func(_ *probe, h *handler) bool { return h.response != nil },
	},
	RequiresSuccess: {
		check: "answers", handler: true, missing: "the answer is a failure",
		met: func(_ *probe, h *handler) bool {
			return h.response != nil && h.response.GetStatus() == runtimehooksv1.ResponseStatusSuccess
		},
	},
	RequiresContent: {
		handler: true, missing: "answers of this hook are status and message",
		met: func(_ *probe, h *handler) bool { return contentOf(h.descriptor.NewResponse()) != nil },
	},
	RequiresCluster: {
		handler: true, missing: "requests of this hook have no Cluster",
		met: func(_ *probe, h *handler) bool { return h.hasCluster },
	},
}

// check is a Check with the function that runs it.
type check struct {
	Check
	// run runs the check. The handler is nil for a check of the extension as a whole.
	run func(context.Context, *probe, *handler) error
}

// Checks returns all checks in the order in which they run.
func Checks() []Check {
	var all []Check
	for _, c := range slices.Concat(serverChecks, handlerChecks, lastChecks) {
		all = append(all, c.Check)
	}
	return all
}

// isRequired reports whether another check requires the result of this one.
func isRequired(name string) bool {
	for _, c := range Checks() {
		for _, r := range c.Requires {
			if requirements[r].check == name {
				return true
			}
		}
	}
	return false
}

// result is the result of one check.
type result struct {
	err  error
	took time.Duration
}

// perform runs a check if its requirements are met.
func (p *probe) perform(ctx context.Context, c check, h *handler) result {
	start := time.Now()
	if ctx.Err() != nil {
		return result{err: skip("the checks had already stopped")}
	}
	for _, name := range c.Requires {
		if r := requirements[name]; !r.met(p, h) {
			return result{err: skip(r.missing)}
		}
	}
	err := guard(func() error { return c.run(ctx, p, h) })
	var broken *panicked
	if err != nil && ctx.Err() != nil && !errors.As(err, &broken) {
		err = skip("the checks stopped during this one") // the extension is not at fault
	}
	return result{err: err, took: time.Since(start)}
}

// panicked is the failure of a check that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("the check panicked: %v; report the stack to the authors of the check", p.value)
}

// guard returns the error of a function, or a *panicked if it panics. Each goroutine that a check starts needs its own
// guard.
func guard(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return run()
}
