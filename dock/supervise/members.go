//go:build linux

package supervise

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/proc"
)

// markName is the environment variable by which this package finds all descendants of a command that it started. It
// replaces cgroups, which ordinary users don't have everywhere. systemd sets the same variable.
const markName = "INVOCATION_ID"

// members lists the processes of this PID namespace that carry mark in their environment or belong to session sid (0:
// none). It never includes the calling process. unsettled reports that some processes have no environment at all: they
// may be about to execute another program, so look again.
func members(mark string, sid int) (found []int, unsettled bool) {
	list, err := proc.List()
	if err != nil {
		return nil, false
	}
	want := markName + "=" + mark
	for _, p := range list {
		env, err := p.Env()
		switch {
		case sid != 0 && p.Session == sid, slices.Contains(env, want):
			found = append(found, p.PID)
		case err == nil && len(env) == 0:
			unsettled = true
		}
	}
	return found, unsettled
}
