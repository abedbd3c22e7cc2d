// Package failpoint lets a test kill the process at a named point, as a power failure would.
//
// The environment variable CAPSTAN_FAILPOINT names the point. This needs no protection: whoever can set the environment
// of a process can kill it anyway.
package failpoint

import (
	"os"
	"syscall"
)

// Variable is the environment variable that names the point.
const Variable = "CAPSTAN_FAILPOINT"

var chosen = os.Getenv(Variable)

// Hit kills the process with SIGKILL if name is the chosen point.
func Hit(name string) {
	if chosen == "" || chosen != name {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; do nothing more
}
