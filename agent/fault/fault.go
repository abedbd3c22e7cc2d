// Package fault keeps apart what may be said about an error and what may not.
//
// The report of a host can be read by everybody who may read CapstanHosts, while errors of bootstrap data may quote the
// data, which holds secrets. So a report shows only texts that were written to be shown; the rest goes to the log on
// the host, which only root can read.
package fault

import (
	"errors"
	"fmt"
)

// Fault is an error with a text that may be shown.
type Fault struct {
	text  string
	cause error
}

// New returns an error whose text may be shown to everybody; cause (may be nil) stays on the host.
func New(cause error, format string, args ...any) error {
	return &Fault{text: fmt.Sprintf(format, args...), cause: cause}
}

// Error has everything: the text and the cause.
func (f *Fault) Error() string {
	if f.cause == nil {
		return f.text
	}
	return f.text + ": " + f.cause.Error()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.cause }

// Text returns what may be shown of err: the texts of all faults in its chain, outermost first, or otherwise if there
// is none.
func Text(err error, otherwise string) string {
	text := ""
	for {
		var f *Fault
		if !errors.As(err, &f) {
			break
		}
		if text != "" {
			text += ": "
		}
		text += f.text
		err = f.cause
	}
	if text == "" {
		return otherwise
	}
	return text
}
