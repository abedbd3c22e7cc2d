package run

import (
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// pauseName is the name under which capstan-run acts as the program of the image "pause", which does nothing until it
// is stopped.
const pauseName = "pause"

// pauseProgram waits for the signal to stop. As the first process of a PID namespace, it reaps orphans.
func pauseProgram() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	signal.Ignore(unix.SIGHUP) // comes last: it shows observers that the process is ready
	debug.FreeOSMemory()
	for s := range signals {
		if s != unix.SIGCHLD {
			return 0
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return 0
}
