// Package failpoint lets a test end the process at a named point, as a loss of power would.
//
// The environment variable CAPSTAN_FAILPOINT names the point. It does nothing else, so it needs no guard: who can set
// it for a process can end it anyway.
package failpoint

import (
	"os"
	"syscall"
)

// Variable is the environment variable that names the point.
const Variable = "CAPSTAN_FAILPOINT"

var chosen = os.Getenv(Variable)

// Hit ends the process with SIGKILL if name is the chosen point.
func Hit(name string) {
	if chosen == "" || chosen != name {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing may happen after this point
}
