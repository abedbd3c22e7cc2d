package client

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// kind is the kind of a failure. The table consequences lists the effects of each kind.
type kind int

const (
	// noAnswer means that there was no usable answer.
	noAnswer kind = iota
	// notAsked means that the open circuit prevented the call.
	notAsked
	// unknownHandler means that the extension's server does not have the handler.
	unknownHandler
	// refused means that the handler answered with Failure or with an unknown status.
	refused
	// misconfigured means that calling again does not help.
	misconfigured
	// abandoned means that the caller gave up, or that all handlers together took too long.
	abandoned
	// superfluous means that another handler, earlier in the order, has failed.
	superfluous
)

// consequences holds what follows from each kind of failure.
var consequences = [...]struct {
	// excusable reports whether the failure policy Ignore turns the failure into an empty Success (CL-04, CL-05, CL-20).
	excusable bool
	// health is what the failure reveals about the extension.
	health health
}{
	noAnswer:       {excusable: true, health: fails},
	notAsked:       {excusable: true, health: unclear},
	unknownHandler: {excusable: true, health: works},
	refused:        {excusable: false, health: works},
	misconfigured:  {excusable: false, health: works},
	abandoned:      {excusable: false, health: unclear},
	superfluous:    {excusable: false, health: unclear},
}

// failure is what went wrong with a call to one handler.
type failure struct {
	kind kind
	// text describes the failure. If empty, the text of the cause is used.
	text string
	// cause may be nil if there is a text.
	cause error
}

// Error returns the same text for the same failure.
func (f *failure) Error() string {
	if f.text != "" {
		return f.text
	}
	return f.cause.Error()
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

// Is reports whether the target is ErrNotAsked and the failure is of kind notAsked.
func (f *failure) Is(target error) bool { return f.kind == notAsked && target == ErrNotAsked }

// failureOf returns an error as a failure. An error of unknown kind counts as no answer.
func failureOf(err error) *failure {
	var f *failure
	if err == nil || errors.As(err, &f) {
		return f
	}
	return &failure{kind: noAnswer, cause: err}
}

// stable returns an error of the transport with a text that is the same each time: without the URL (which the
// ExtensionConfig has), the local port, the resolver, and the time of day that certificate errors quote.
func stable(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return &failure{cause: err, text: fmt.Sprintf(
			"its certificate is only valid from %s to %s; renew it, or set the clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))}
	}
	var name *net.DNSError
	if errors.As(err, &name) { // names the resolver that was used, of which there may be several
		return &failure{cause: err, text: fmt.Sprintf("its name %q could not be looked up: %s", name.Name, name.Err)}
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		remote := ""
		if operation.Addr != nil {
			remote = " " + operation.Addr.String()
		}
		return &failure{cause: err, text: fmt.Sprintf("%s%s: %v", operation.Op, remote, operation.Err)}
	}
	var request *url.Error
	if errors.As(err, &request) {
		return &failure{cause: err, text: request.Err.Error()}
	}
	return err
}
