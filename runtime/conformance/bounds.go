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
	// DefaultTimeout bounds the total time of all checks.
	DefaultTimeout = 5 * time.Minute
	// maxName is the longest name that a handler may have: that of a DNS label. Handlers with longer names are not
	// called.
	maxName = 63
	// maxProblems is how many problems a check reports.
	maxProblems = 10
	// maxMessage bounds the message of a result in bytes. It may quote the extension.
	maxMessage = 4 << 10
	// maxNames is how many unchecked handlers the report names.
	maxNames = 10
)

// Left describes what the checks had to omit.
type Left struct {
	// Why the checks are incomplete, in sentences.
	Why string `json:"why"`
	// Handlers is the number of handlers that were not checked completely.
	Handlers int `json:"handlers"`
	// Names of the first of these handlers.
	Names []string `json:"names,omitempty"`
}

// String returns the description in one line.
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

// leave records that something was not checked.
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

// forget releases the results of a handler's checks, because an answer may have 20 MiB.
func (h *handler) forget() { h.answer, h.response, h.expect = answer{}, nil, nil }

func namesOf(handlers []*handler) []string {
	names := make([]string, 0, min(len(handlers), maxNames))
	for _, h := range handlers[:cap(names)] {
		names = append(names, h.name)
	}
	return names
}

// problems collects what one check finds, and keeps the first of them.
type problems struct {
	failed, warned []error
	more           int
}

// add adds an error or a warning; it ignores nil.
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

// err returns the failures or, if there are none, the warnings: a warning must not soften a failure.
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

// clipped returns a string from the extension, shortened to the length that a report allows.
func clipped(text string) string { return wire.Clip(text, maxMessage) }
