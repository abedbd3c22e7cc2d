package check

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/contract/source"
)

// Driver drives a provider for live checks: a management cluster in which the definitions and webhooks of the release
// are installed and, for checks that need [Running], its controllers run. A sequence of the catalogue is played with
// its methods: apply what the sequence says, then observe.
//
// An implementation does what is asked and judges nothing. It works in one namespace of its own, and sets that of an
// object which names none. Each method returns a [*RefusedError] where the API server or a webhook refuses the request,
// and any other error where it could not ask: the latter is a failure of the check, not a finding.
type Driver interface {
	// Apply writes an object by server-side apply, and returns what became of it.
	Apply(ctx context.Context, object *unstructured.Unstructured, how Applying) (*unstructured.Unstructured, error)
	// Delete asks for the deletion of an object. One that does not exist is deleted.
	Delete(ctx context.Context, object *unstructured.Unstructured) error
	// Observe returns the states of an object as they come, the present one first. Nil is an object that does not
	// exist. The states end with ctx or after an error.
	Observe(ctx context.Context, object *unstructured.Unstructured) iter.Seq2[*unstructured.Unstructured, error]
}

// Applying says how an object is applied.
type Applying struct {
	// Manager is the name of the field manager. It takes fields over from others.
	Manager string
	// DryRun asks what would become of the object, and writes nothing.
	DryRun bool
}

// RefusedError is a request that the API server or a webhook refused.
type RefusedError struct {
	// Message is what it answered.
	Message string
}

// Error returns the answer.
func (e *RefusedError) Error() string { return e.Message }

// RunLive runs checks over a release, those over files and those that drive it.
func RunLive(ctx context.Context, driver Driver, checks []*Check, release *source.Release) *Report {
	return run(ctx, driver, checks, []*source.Release{release}, nil)
}

// Failed says that a live check could not ask what it wanted to know.
func (p *Pass) Failed(err error) {
	if p.err == nil {
		p.err = fmt.Errorf("driving the provider: %w", err)
	}
}
