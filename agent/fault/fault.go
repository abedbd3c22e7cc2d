// Package fault separates what may be shown about an error from what may not.
//
// Everybody who may read CapstanHosts can read the report of a host, but errors about bootstrap data may quote the
// data, which holds secrets. So a report contains only texts that were written to be shown; the rest goes to the log on
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

// Error returns the text and the cause.
func (f *Fault) Error() string {
	if f.cause == nil {
		return f.text
	}
	return f.text + ": " + f.cause.Error()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.cause }

// Text returns what may be shown of err: the texts of all faults in its chain, outermost first. If there are none, it
// returns fallback.
func Text(err error, fallback string) string {
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
		return fallback
	}
	return text
}
