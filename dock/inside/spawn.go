//go:build linux

package inside

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
	"github.com/capstan-dev/capstan/internal/logfile"
)

// spawn starts PID 1 of the host in new namespaces. It returns PID 1 and the dock's end of the socket pair whose other
// end is PID 1's SpecFD.
func (e *engine) spawn(h *host, dir, root string) (*reap.Child, net.Conn, error) {
	log, err := logfile.Open(filepath.Join(dir, "console.log"), maxConsole)
	if err != nil {
		return nil, nil, err
	}
	console, copied, err := logfile.Pipe(log)
	if err != nil {
		log.Close()
		return nil, nil, err
	}
	defer console.Close()
	go func() {
		<-copied
		log.Close()
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, fmt.Errorf("starting host %s: %w", h.name, err)
	}
	defer null.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, fmt.Errorf("starting host %s: %w", h.name, err)
	}
	defer theirs.Close()
	child, err := e.startInit(h, dir, root, &syscall.ProcAttr{
		// Set no Dir: the host may lack the permission to reach its root by path, so PID 1 starts in the working
		// directory that the method share has set.
		Env:   []string{"PATH=" + rootfs.Path, "HOST=" + h.name},
		Files: []uintptr{null.Fd(), console.Fd(), console.Fd(), theirs.Fd()},
	})
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("making the namespaces of host %s: %w", h.name, err)
	}
	return child, ours, nil
}

// startInit starts PID 1 of a host in a new user namespace and new namespaces of other kinds. Mounts shared with the
// machine are created before that, outside of that user namespace, so that root in the host can't change them.
func (e *engine) startInit(h *host, dir, root string, attr *syscall.ProcAttr) (*reap.Child, error) {
	ids, err := e.newIDs()
	if err != nil {
		return nil, err
	}
	defer ids.close()
	attr.Sys = ids.attributes(hostNamespaces())
	attr.Sys.Setsid = true
	groups := e.newGroups(h.name, ids)
	type result struct {
		child *reap.Child
		err   error
	}
	started := make(chan result, 1)
	go func() {
		// The thread gets its own mount namespace, of which the child inherits a copy. The thread ends with this goroutine.
		runtime.LockOSThread()
		if err := e.share(dir, root, ids.namespace, groups); err != nil {
			started <- result{nil, err}
			return
		}
		child, err := e.startIn(groups, attr)
		started <- result{child, err}
	}()
	r := <-started
	if r.err != nil {
		e.dropGroups(groups)
		return nil, r.err
	}
	ids.keep(r.child)
	e.keepGroups(groups, r.child)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids, h.limits = ids.size, ""; groups != nil {
		h.limits = e.groups.Names()
	}
	return r.child, nil
}

// share mounts what a host shares with the machine, in this thread's mount namespace, and enters the host's root.
func (e *engine) share(dir, root string, ids *os.File, groups *cgroup.Host) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := rootfs.Isolate(); err != nil {
		return err
	}
	machine, err := rootfs.Inspect("/")
	if err != nil {
		return err
	}
	plan := slices.Concat(rootfs.PlanShared(machine, e.BinDir), e.planImages(dir), planGroups(groups))
	return rootfs.Share(root, ids, plan)
}

// hostNamespaces returns the namespaces of a host as clone flags.
func hostNamespaces() uintptr {
	flags := uintptr(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS |
		syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC)
	if _, err := os.Stat("/proc/self/ns/cgroup"); err == nil {
		flags |= syscall.CLONE_NEWCGROUP
	}
	return flags
}

func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "host")
	defer file.Close()
	theirs = os.NewFile(uintptr(fds[1]), "dock")
	if ours, err = net.FileConn(file); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
