//go:build linux

package initd

import (
	"syscall"

	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/unit"
)

// ending describes how one attempt ended.
type ending struct {
	err    error // why the attempt failed before the command ran
	ran    bool
	status syscall.WaitStatus
}

func (e ending) failed() bool {
	if e.err != nil {
		return true
	}
	clean := e.status.Signaled() && (e.status.Signal() == syscall.SIGTERM || e.status.Signal() == syscall.SIGINT ||
		e.status.Signal() == syscall.SIGHUP || e.status.Signal() == syscall.SIGPIPE)
	return e.ran && !clean && e.status != 0
}

func (e ending) result() string {
	switch {
	case e.err != nil:
		return "resources"
	case e.status.Signaled():
		return "signal"
	}
	return "exit-code"
}

func (e ending) String() string {
	if e.err != nil {
		return "could not be started: " + e.err.Error()
	}
	return reap.Describe(e.status)
}

func (e ending) restart(u *unit.Unit) bool {
	if u.Type == "oneshot" && !e.failed() {
		return false
	}
	switch u.Restart {
	case "always":
		return true
	case "on-success":
		return !e.failed()
	case "on-failure":
		return e.failed()
	case "on-abnormal", "on-abort":
		return e.err == nil && e.status.Signaled() && e.failed()
	}
	return false
}

type exitError struct {
	argv0  string
	status syscall.WaitStatus
}

func (e exitError) Error() string { return e.argv0 + " " + reap.Describe(e.status) }
