package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
	hints "github.com/capstan-dev/capstan/internal/hint"
)

func TestWhatTheDockRefusesComesWithAHint(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a dock from another folder": {fmt.Errorf("starting: %w", &dock.BinDirError{Has: "/old/bin", Want: "/new/bin"}), "run capstan down, then capstan up"},
		"a port that is taken":       {&dock.Error{Code: dock.CodePortTaken, Message: "taken"}, "capstan down --delete"},
		"a full disk":                {&dock.Error{Code: dock.CodeNoSpace, Message: "full"}, "free some space"},
	} {
		t.Run(name, func(t *testing.T) {
			err := explainDock(c.err)
			if got := hints.Of(err); !strings.Contains(got, c.want) || !strings.Contains(err.Error(), c.err.Error()) {
				t.Errorf("got %v with the hint %q, want %v with %q", err, got, c.err, c.want)
			}
		})
	}
}

func TestHostsFor(t *testing.T) {
	for name, c := range map[string]struct{ memory, inotify, want int }{
		"a laptop is limited by inotify":       {16384, 128, 16},
		"a small machine is limited by memory": {4096, 8192, 5},
		"a large machine gets no more than 32": {262144, 8192, 32},
		"a tiny machine gets a small cluster":  {1024, 128, 3},
		"nothing known is no limit":            {0, 0, 32},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hostsFor(c.memory, c.inotify); got != c.want {
				t.Errorf("hostsFor(%d, %d) = %d, want %d", c.memory, c.inotify, got, c.want)
			}
		})
	}
}
