//go:build linux

package inside

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/idrange"
	"github.com/capstan-dev/capstan/dock/reap"
)

// HoldCommand makes capstan-dock wait until its standard input is closed. This keeps a user namespace alive, because a
// namespace needs a process in it.
const HoldCommand = "hold"

// ids are the user and group ids of a host.
type ids struct {
	size    int
	reserve *idrange.Range // nil for an ordinary user
	// users and groups map each of the dock's own ids to itself; only for an ordinary user with subordinate ids.
	users, groups []syscall.SysProcIDMap
	// namespace is a user namespace with these ids, for mounting the host's root. It is nil if the host uses
	// the dock's own ids.
	namespace *os.File
}

// newIDs reserves the ids of a host. If the dock has all ids of the machine, as root has outside of containers, a host
// gets 65,536 ids of its own. Otherwise all hosts share the dock's ids: the 65,536 of an ordinary user with subordinate
// ids, or one.
func (e *engine) newIDs() (*ids, error) {
	all, err := hasAllIDs()
	if err != nil {
		return nil, err
	}
	if !all {
		return e.dockIDs()
	}
	r, err := idrange.Pool{}.Reserve()
	if err != nil {
		return nil, err
	}
	i := &ids{size: idrange.Size, reserve: r}
	if i.namespace, err = e.userNamespace(i); err != nil {
		r.Release()
		return nil, err
	}
	return i, nil
}

// dockIDs returns the dock's own ids.
func (e *engine) dockIDs() (*ids, error) {
	i := &ids{size: 1}
	if !e.Rootless {
		return i, nil // this is root in a container, where other ids belong to others
	}
	for path, own := range map[string]*[]syscall.SysProcIDMap{
		"/proc/self/uid_map": &i.users, "/proc/self/gid_map": &i.groups,
	} {
		mapping, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the user and group ids of this process: %w", err)
		}
		if *own = idrange.Same(string(mapping)); *own == nil {
			i.users, i.groups = nil, nil
			return i, nil
		}
	}
	i.size = idrange.Size
	return i, nil
}

// hasAllIDs reports whether this process can map the reserved ranges into a new user namespace. For that, the ranges
// must exist in the process's own namespace.
func hasAllIDs() (bool, error) {
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		mapping, err := os.ReadFile(path)
		if err != nil {
			return false, fmt.Errorf("reading the user and group ids of this process: %w", err)
		}
		if !idrange.In(string(mapping)) {
			return false, nil
		}
	}
	return true, nil
}

// attributes returns the attributes of a process in new namespaces, including a user namespace with these ids.
func (i *ids) attributes(flags uintptr) *syscall.SysProcAttr {
	first := 0
	if i.reserve != nil {
		first = i.reserve.First
	}
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: i.size}}
	users, groups := mapping, mapping
	if i.users != nil {
		users, groups = i.users, i.groups
	}
	return &syscall.SysProcAttr{
		Cloneflags:  flags | syscall.CLONE_NEWUSER,
		UidMappings: users, GidMappings: groups,
		GidMappingsEnableSetgroups: i.size > 1, // the kernel forbids it with one id
		// The namespace may lack our own id.
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: i.size == 1},
	}
}

// keep keeps the ids reserved until the host has stopped, and then releases them.
func (i *ids) keep(host *reap.Child) {
	r := i.reserve
	if i.reserve = nil; r == nil {
		return
	}
	go func() {
		<-host.Done()
		r.Release()
	}()
}

// close releases what a start needed. Ids that no host keeps become free again.
func (i *ids) close() {
	if i.namespace != nil {
		i.namespace.Close()
	}
	if i.reserve != nil {
		i.reserve.Release()
	}
}

// userNamespace creates a user namespace with the ids, because a mount takes its id mapping from a namespace.
func (e *engine) userNamespace(i *ids) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	defer w.Close() // stops the process that holds the namespace
	defer r.Close()
	holder, err := e.reaper.Start("/proc/self/exe", []string{"capstan-dock", HoldCommand}, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{r.Fd()}, Sys: i.attributes(0),
	})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	path := fmt.Sprintf("%d/ns/user", e.outerPID(holder.Pid))
	fd, err := unix.Openat(int(e.machineProc.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the user namespace of a host: %w", err)
	}
	return os.NewFile(uintptr(fd), "userns"), nil
}
