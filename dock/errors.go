package dock

import (
	"errors"
	"fmt"
)

// ErrNotRunning is wrapped by the error of every call if no dock runs in that home directory.
var ErrNotRunning = errors.New("no dock is running")

// Code classifies an Error.
type Code string

// The codes of errors.
const (
	CodeInvalid      Code = "Invalid"      // the request can never work
	CodeNotFound     Code = "NotFound"     // no host, balancer, relay or unit has that name
	CodePortTaken    Code = "PortTaken"    // another process listens on a port of a relay
	CodeNoSpace      Code = "NoSpace"      // the disk is full
	CodeExhausted    Code = "Exhausted"    // all addresses are in use
	CodeShuttingDown Code = "ShuttingDown" // the dock is stopping
	CodeFailed       Code = "Failed"       // anything else; the message explains
)

// Error is the dock's answer when a request fails.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// CodeOf returns the code of the Error in err, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// BinDirError reports that the running dock was started from another directory of binaries than the requested one.
type BinDirError struct {
	Has, Want string
}

// Error names both directories.
func (e *BinDirError) Error() string {
	return fmt.Sprintf("a dock is already running, with the binaries in %s and not those in %s", e.Has, e.Want)
}

// Problem is one property of the machine that keeps a dock from working. It is found before anything is created.
type Problem struct {
	// Setting names the cause: a sysctl, a kernel module, a limit, the disk.
	Setting string `json:"setting"`
	// Have is the setting's present value, and Want the required one; either may be empty.
	Have string `json:"have,omitempty"`
	Want string `json:"want,omitempty"`
	// Message says what does not work because of the problem.
	Message string `json:"message"`
	// Fix is the command to run as root, or an instruction.
	Fix string `json:"fix"`
}

// What describes the problem with its figures.
func (p *Problem) What() string {
	s := p.Message + " (" + p.Setting
	if p.Have != "" {
		s += " is " + p.Have
	}
	if p.Want != "" {
		s += fmt.Sprintf(", %s is needed", p.Want)
	}
	return s + ")"
}

// Error describes the problem and the fix.
func (p *Problem) Error() string { return p.What() + ": " + p.Fix }

// Problems returns every Problem that err wraps, in order.
func Problems(err error) []*Problem {
	switch e := err.(type) {
	case *Problem:
		return []*Problem{e}
	case interface{ Unwrap() []error }:
		var all []*Problem
		for _, inner := range e.Unwrap() {
			all = append(all, Problems(inner)...)
		}
		return all
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Problems(inner)
	}
	return nil
}
