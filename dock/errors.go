package dock

import (
	"errors"
	"fmt"
)

// ErrNotRunning is wrapped by every call's error if no dock runs in that home directory.
var ErrNotRunning = errors.New("no dock is running")

// Code classifies an Error.
type Code string

// The codes of errors.
const (
	CodeInvalid      Code = "Invalid"      // the request can't work, ever
	CodeNotFound     Code = "NotFound"     // no host, balancer, relay or unit has that name
	CodePortTaken    Code = "PortTaken"    // another process listens on a port of a relay
	CodeNoSpace      Code = "NoSpace"      // the disk is full
	CodeExhausted    Code = "Exhausted"    // all addresses are in use
	CodeShuttingDown Code = "ShuttingDown" // the dock is on its way to end
	CodeFailed       Code = "Failed"       // anything else; the message says what
)

// Error is what the dock answers if it can't do something.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// CodeOf gives the code of the Error in err, "" if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// BinDirError says that the dock which runs was started from another folder of binaries than the one that is asked for
// now.
type BinDirError struct {
	Has, Want string
}

// Error names both folders.
func (e *BinDirError) Error() string {
	return fmt.Sprintf("a dock runs already, with the binaries in %s and not those in %s", e.Has, e.Want)
}

// Problem is one thing about the machine that keeps a dock from working, found before anything is made.
type Problem struct {
	// Setting names what is in the way: a sysctl, a kernel module, a limit, the disk.
	Setting string `json:"setting"`
	// Have is its value, Want the value that is needed; they may be empty.
	Have string `json:"have,omitempty"`
	Want string `json:"want,omitempty"`
	// Message says what does not work because of that.
	Message string `json:"message"`
	// Fix is the command that changes it, to be run as root, or an instruction.
	Fix string `json:"fix"`
}

// What says what is wrong, with the figures.
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

// Error says what is wrong and what to do.
func (p *Problem) Error() string { return p.What() + ": " + p.Fix }

// Problems lists every Problem that err wraps, in order.
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
