package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

const (
	// DefaultTimeout is how long all checks may take together.
	DefaultTimeout = 5 * time.Minute
	// maxName is the longest name that a handler may have: that of a DNS label. Longer ones are not called.
	maxName = 63
	// maxProblems is how many problems of one check are named.
	maxProblems = 10
	// maxMessage bounds the message of one result, in bytes. What an extension says is in it.
	maxMessage = 4 << 10
	// maxNames is how many handlers that were not checked are named.
	maxNames = 10
)

// Left says what the checks had to leave out.
type Left struct {
	// Why the checks were not completed, in sentences.
	Why string `json:"why"`
	// Handlers is the number of those that were not checked, or not with all checks.
	Handlers int `json:"handlers"`
	// Names of the first of them.
	Names []string `json:"names,omitempty"`
}

// String says it in one line.
func (l *Left) String() string {
	if l.Handlers == 0 {
		return l.Why
	}
	text := fmt.Sprintf("%s; not checked: %d handlers: %s", l.Why, l.Handlers, strings.Join(l.Names, ", "))
	if more := l.Handlers - len(l.Names); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// leave notes that something was not checked.
func (r *Report) leave(why string, handlers int, names []string) {
	if r.Left == nil {
		r.Left = &Left{}
	}
	if r.Left.Why != "" {
		r.Left.Why += "; "
	}
	r.Left.Why += why
	r.Left.Handlers += handlers
	r.Left.Names = append(r.Left.Names, names[:min(len(names), maxNames-len(r.Left.Names))]...)
}

// forget lets go of what the checks of a handler have found out: an answer may have 20 MiB.
func (h *handler) forget() { h.answer, h.response, h.expect = answer{}, nil, nil }

func namesOf(handlers []*handler) []string {
	names := make([]string, 0, min(len(handlers), maxNames))
	for _, h := range handlers[:cap(names)] {
		names = append(names, h.name)
	}
	return names
}

// problems collects what one check finds, and names the first of them.
type problems struct {
	failed, warned []error
	more           int
}

// add keeps an error if it is one; a warning is one, too.
func (p *problems) add(err error) {
	var warned *warning
	switch kept := len(p.failed) + len(p.warned); {
	case err == nil:
	case errors.As(err, &warned) && kept < maxProblems:
		p.warned = append(p.warned, err)
	case errors.As(err, &warned):
		p.more++
	case len(p.failed) < maxProblems:
		p.failed = append(p.failed, err)
	default:
		p.more++
	}
}

// err returns the failures, or if there are none the warnings: a warning makes no failure less.
func (p *problems) err() error {
	found := p.failed
	if len(found) == 0 {
		found = p.warned
	}
	if p.more > 0 && len(found) > 0 {
		more := fmt.Errorf("and %d more", p.more)
		if len(p.failed) == 0 {
			more = warn("and %d more", p.more)
		}
		found = append(slices.Clone(found), more)
	}
	return errors.Join(found...)
}

// clipped returns a text of the extension, no longer than a report can take.
func clipped(text string) string { return wire.Clip(text, maxMessage) }
