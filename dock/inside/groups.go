//go:build linux

package inside

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
)

// EnterCommand makes capstan-dock treat its own control group as the top of the tree, move below it, and then become
// PID 1 of a host.
const EnterCommand = "enter-groups"

// newGroups creates the control groups of a host, or returns nil if that fails: a host without limits is better than
// none.
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

// startIn starts PID 1 of a host in its control groups. The caller has locked this thread, because with control groups
// of version 1, the thread itself moves into the host's groups.
func (e *engine) startIn(groups *cgroup.Host, attr *syscall.ProcAttr) (*reap.Child, error) {
	command := "init"
	if groups != nil {
		opened, err := groups.Start(attr.Sys)
		if err != nil {
			return nil, err
		}
		if opened != nil {
			defer opened.Close()
			// The root of a new control group namespace is the group of the thread that creates it. With version 2, this
			// thread stays in its own group. So the new process creates its namespace itself, and then moves to a group below
			// the root of that namespace.
			attr.Sys.Cloneflags &^= unix.CLONE_NEWCGROUP
			command = EnterCommand
		}
	}
	return e.reaper.Start("/proc/self/exe", []string{"capstan-dock", command}, attr)
}

// keepGroups keeps a host's control groups until the host has stopped, and then removes them.
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

// EnterGroups implements EnterCommand. It returns only on failure.
func EnterGroups() error {
	runtime.LockOSThread() // the thread that calls exec becomes the process
	if err := enter(); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", []string{"capstan-dock", "init"}, syscall.Environ())
	return fmt.Errorf("becoming PID 1 of the host: %w", err)
}

// enter enters the host's group. At this point the host's root is only the working directory, and this process's root
// is still the root of the machine. Links that the host has created must not lead out of the host's root.
func enter() error {
	root, err := os.OpenRoot(".")
	if err != nil {
		return fmt.Errorf("opening the host's root: %w", err)
	}
	defer root.Close()
	group, err := root.OpenRoot(strings.TrimPrefix(rootfs.GroupDir(cgroup.Unified), "/"))
	if err != nil {
		return fmt.Errorf("opening the host's control group: %w", err)
	}
	defer group.Close()
	return cgroup.Enter(group)
}
