package check

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/contract/source"
)

// Driver drives a provider for live checks. It has a management cluster in which the definitions and webhooks of the
// release are installed: see [Installed]. With these methods, a check plays a sequence of steps from the catalogue: it
// applies objects, then observes them.
//
// An implementation only does what it is asked; it does not judge the result. It works in a namespace of its own and
// puts objects without a namespace there. A method returns a [*RefusedError] if the API server or a webhook refuses the
// request. Any other error means that the request could not be made: it fails the check and is not a finding.
type Driver interface {
	// Apply writes an object by server-side apply and returns the result.
	Apply(ctx context.Context, object *unstructured.Unstructured, how Applying) (*unstructured.Unstructured, error)
	// Delete requests the deletion of an object. Deleting an object that does not exist succeeds.
	Delete(ctx context.Context, object *unstructured.Unstructured) error
	// Observe yields the states of an object as they change, starting with the current one. A nil state means that the
	// object does not exist. The sequence stops when ctx is done or after an error.
	Observe(ctx context.Context, object *unstructured.Unstructured) iter.Seq2[*unstructured.Unstructured, error]
}

// Applying says how an object is applied.
type Applying struct {
	// Manager is the name of the field manager. It takes over fields that others own.
	Manager string
	// DryRun requests the result without writing anything.
	DryRun bool
}

// RefusedError is the refusal of a request by the API server or a webhook.
type RefusedError struct {
	// Message is the server's answer.
	Message string
}

// Error returns the server's answer.
func (e *RefusedError) Error() string { return e.Message }

// RunLive runs checks over a release, both checks of files and live checks, which use the driver.
func RunLive(ctx context.Context, driver Driver, checks []*Check, release *source.Release) *Report {
	return run(ctx, driver, checks, []*source.Release{release}, nil)
}

// Failed records that a live check could not make a request or an observation.
func (p *Pass) Failed(err error) {
	if p.err == nil {
		p.err = fmt.Errorf("driving the provider: %w", err)
	}
}
