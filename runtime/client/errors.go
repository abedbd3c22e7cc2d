package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// CallError is the failure of a call to one handler that counts as one: after its failure policy was applied.
type CallError struct {
	// Hook in the version that the handler serves.
	Hook hook.ID
	// Handler is its unique name, see [registry.Handler].
	Handler string
	// Err is what went wrong.
	Err error
}

// Error names the handler and what went wrong. The same failure gives the same text.
func (e *CallError) Error() string { return fmt.Sprintf("handler %q: %v", e.Handler, e.Err) }

// Unwrap gives what went wrong.
func (e *CallError) Unwrap() error { return e.Err }

// statusError is what the handler itself says; no failure policy excuses it.
type statusError struct{ text string }

func (e *statusError) Error() string { return e.text }

// misconfiguredError is a failure that calling again does not cure; no failure policy excuses it.
type misconfiguredError struct{ err error }

func (e *misconfiguredError) Error() string { return e.err.Error() }
func (e *misconfiguredError) Unwrap() error { return e.err }

// callerError says that the call ended because of whom it was made for; no failure policy excuses it.
type callerError struct{ cause error }

func (e *callerError) Error() string { return e.cause.Error() }
func (e *callerError) Unwrap() error { return e.cause }

// canceledError says that a call was ended because a handler before it in the order has failed.
type canceledError struct{}

func (*canceledError) Error() string {
	return "its answer is not needed any more: another handler has failed"
}

// unknownHandlerError says that the extension's server does not have the handler.
type unknownHandlerError struct{ quoted string }

func (e *unknownHandlerError) Error() string {
	return "it answered with the HTTP status 404 instead of 200" + e.quoted + "; if the extension has changed, it is soon asked again which handlers it has"
}

// timeoutError says that a handler's own timeout has passed.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("it gave no answer within %s", e.after) }

// Is makes the error match context.DeadlineExceeded.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// stableError has a text of its own for a cause whose text changes from call to call.
type stableError struct {
	text  string
	cause error
}

func (e *stableError) Error() string { return e.text }
func (e *stableError) Unwrap() error { return e.cause }

// stable gives an error of the transport a text that is the same each time: without the URL (the ExtensionConfig has it), without
// the local port, without the resolver, and without the time of day that certificate errors quote.
func stable(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return &stableError{cause: err, text: fmt.Sprintf("its certificate is only valid from %s to %s; renew it, or set the clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))}
	}
	var name *net.DNSError
	if errors.As(err, &name) { // names the resolver that was asked, of which there may be several
		return &stableError{cause: err, text: fmt.Sprintf("its name %q could not be looked up: %s", name.Name, name.Err)}
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		remote := ""
		if operation.Addr != nil {
			remote = " " + operation.Addr.String()
		}
		return &stableError{cause: err, text: fmt.Sprintf("%s%s: %v", operation.Op, remote, operation.Err)}
	}
	var request *url.Error
	if errors.As(err, &request) {
		return &stableError{cause: err, text: request.Err.Error()}
	}
	return err
}

// joinErrors joins in one line: the text lands in conditions.
func joinErrors(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &joinedError{errs}
}

type joinedError struct{ errs []error }

func (e *joinedError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (e *joinedError) Unwrap() []error { return e.errs }
