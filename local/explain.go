package local

import (
	"errors"
	"strings"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

// explainDock adds advice to an error of the dock or the machine; nil stays nil.
func explainDock(err error) error {
	if problems := dock.Problems(err); len(problems) > 0 {
		var whats, fixes []string
		for _, p := range problems {
			whats, fixes = append(whats, p.What()), append(fixes, p.Fix)
		}
		return hint.Errorf(strings.Join(fixes, "\n      "), "%w", &reworded{strings.Join(whats, "\n       "), err})
	}
	var other *dock.BinDirError
	if errors.As(err, &other) {
		return hint.Errorf(
			"install these binaries in "+other.Has+", and its hosts keep running; or run capstan down, then capstan up,\n"+
				"      which restarts clusters from their disks",
			"%w",
			err,
		)
	}
	switch dock.CodeOf(err) {
	case dock.CodePortTaken:
		return hint.Errorf("stop the other process, or remove everything with capstan down --delete", "%w", err)
	case dock.CodeNoSpace:
		return hint.Errorf("free some space, or choose another disk with --home or CAPSTAN_HOME", "%w", err)
	}
	return err
}

// reworded is an error with another text: people read text, programs unwrap err.
type reworded struct {
	text string
	err  error
}

// Error returns text.
func (e *reworded) Error() string { return e.text }

// Unwrap returns the error that text rewords.
func (e *reworded) Unwrap() error { return e.err }
