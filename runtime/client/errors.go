package client

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// ErrNotAsked matches the errors of calls that were not made because the last ones to the same extension failed. Such
// an error has the text of the last failure, so that conditions do not change with every attempt.
var ErrNotAsked = errors.New("the extension was not asked, because its last calls failed")

// CallError is a failed call to one handler that the handler's failure policy does not excuse.
type CallError struct {
	// Hook in the version that the handler serves.
	Hook hook.ID
	// Handler is the unique name of the handler, see [registry.Handler].
	Handler string
	// Err is what went wrong.
	Err error
}

// Error names the handler and what went wrong. The same failure always has the same text.
func (e *CallError) Error() string { return fmt.Sprintf("handler %q: %v", e.Handler, e.Err) }

// Unwrap returns what went wrong.
func (e *CallError) Unwrap() error { return e.Err }
