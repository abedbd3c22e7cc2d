package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestWhatTheDockRefusesComesWithAHint(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a dock from another directory": {fmt.Errorf("starting: %w", &dock.BinDirError{Has: "/old/bin", Want: "/new/bin"}),
			"install these binaries in /old/bin"},
		"a port that is taken": {&dock.Error{Code: dock.CodePortTaken, Message: "taken"}, "capstan down --delete"},
		"a full disk":          {&dock.Error{Code: dock.CodeNoSpace, Message: "full"}, "free some space"},
	} {
		t.Run(name, func(t *testing.T) {
			err := explainDock(c.err)
			if got := hint.Of(err); !strings.Contains(got, c.want) || !strings.Contains(err.Error(), c.err.Error()) {
				t.Errorf("got %v with the hint %q, want %v with %q", err, got, c.err, c.want)
			}
		})
	}
}
