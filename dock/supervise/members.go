//go:build linux

package supervise

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/proc"
)

// markName is the environment variable by which the descendants of one start of a command are found again, as cgroups
// are not available to ordinary users everywhere. systemd sets the same variable.
const markName = "INVOCATION_ID"

// members lists the processes of this PID namespace that carry mark in their environment or belong to session sid
// (0: none). The process that asks is never among them. unsettled reports that there are processes without any
// environment: they may be about to execute another program, and need another look.
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
