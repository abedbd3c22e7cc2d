//go:build linux

package inside

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
)

// EnterCommand makes capstan-dock take the control group it is in for the top of the tree, and become PID 1 of a host.
const EnterCommand = "enter-groups"

// newGroups makes the control groups of a host; nil where it has none. A host without limits is better than no host.
func (e *engine) newGroups(name string, i *ids) *cgroup.Host {
	if e.groups == nil {
		return nil
	}
	owner := 0
	if i.reserve != nil {
		owner = i.reserve.First
	}
	groups, err := e.groups.Host(name, owner)
	if err != nil {
		e.Log.Printf("host %s has no limits: %v", name, err)
		return nil
	}
	return groups
}

// planGroups lists what a host sees of its control groups.
func planGroups(groups *cgroup.Host) []rootfs.Mount {
	if groups == nil {
		return nil
	}
	return rootfs.PlanGroups(groups.Shared())
}

// startIn starts PID 1 of a host in its control groups. This thread, which the caller has locked, is in some of them
// afterwards.
func (e *engine) startIn(groups *cgroup.Host, attr *syscall.ProcAttr) (*reap.Child, error) {
	command := "init"
	if groups != nil {
		opened, err := groups.Start(attr.Sys)
		if err != nil {
			return nil, err
		}
		if opened != nil {
			defer opened.Close()
			// A namespace of control groups that is made at the start begins at the group of this thread, which version 2
			// does not move: the new process makes its own.
			attr.Sys.Cloneflags &^= unix.CLONE_NEWCGROUP
			command = EnterCommand
		}
	}
	return e.reaper.Start("/proc/self/exe", []string{"capstan-dock", command}, attr)
}

// keepGroups removes the control groups of a host when it has ended.
func (e *engine) keepGroups(groups *cgroup.Host, host *reap.Child) {
	go func() {
		<-host.Done()
		e.dropGroups(groups)
	}()
}

func (e *engine) dropGroups(groups *cgroup.Host) {
	if groups == nil {
		return
	}
	if err := groups.Remove(); err != nil {
		e.Log.Print(err)
	}
}

// EnterGroups is EnterCommand. It returns only when that fails.
func EnterGroups() error {
	runtime.LockOSThread() // the thread that executes becomes the process
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a namespace of control groups: %w", err)
	}
	err := syscall.Exec("/proc/self/exe", []string{"capstan-dock", "init"}, syscall.Environ())
	return fmt.Errorf("becoming PID 1 of the host: %w", err)
}
