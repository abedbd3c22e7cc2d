// Package hint creates errors that carry advice: what to do next. The advice is not part of the error's text, so that a
// command can print it on a line of its own. Every error with a method Hint() string carries advice; its type can be
// from any package.
package hint

import (
	"errors"
	"fmt"
)

// advised is an error with advice.
type advised struct {
	error
	hint string
}

// Unwrap returns the error without its advice.
func (a *advised) Unwrap() error { return a.error }

// Hint returns the advice.
func (a *advised) Hint() string { return a.hint }

// Errorf returns an error with advice, made from format and args like that of fmt.Errorf.
func Errorf(advice, format string, args ...any) error {
	return &advised{fmt.Errorf(format, args...), advice}
}

// Of returns the advice of the outermost error in err's chain that has any, or "".
func Of(err error) string {
	var h interface {
		error
		Hint() string
	}
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
