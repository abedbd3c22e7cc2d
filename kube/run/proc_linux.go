package run

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// procFD is the descriptor of the directory on which "capstan-run proc" mounts /proc.
const procFD = 3

// mountProc mounts /proc in the tree. At this time, the program's process already waits in its PID namespace. notes
// says what was left out.
func (s *starter) mountProc(t tree, namespace string) (notes []string, err error) {
	if namespace == Host {
		err = t.mount("proc", "/proc", kernelFlags, "")
	} else {
		err = s.mountProcOf(t)
	}
	if err == nil {
		return nil, nil
	}
	refused := err
	if err := t.bind("/proc", "/proc"); err != nil {
		return nil, errors.Join(refused, err)
	}
	return []string{fmt.Sprintf("the container sees the host's /proc: %v "+
		"(is something mounted over parts of the machine's /proc?)", refused)}, nil
}

// mountProcOf mounts the /proc of the namespace that this thread's children are in.
func (s *starter) mountProcOf(t tree) error {
	at, err := t.ensure("/proc", true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := mountProcByName(at); err == nil {
		return nil
	}
	return s.mountProcInside(at)
}

// mountProcByName tells the kernel which PID namespace /proc shows. This needs Linux 6.17.
func mountProcByName(at int) error {
	namespace, err := unix.Open("/proc/thread-self/ns/pid_for_children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(namespace)
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetFd(fs, "pidns", namespace); err != nil {
		return err
	}
	if err := unix.FsconfigSetString(fs, "source", "proc"); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// mountProcInside mounts /proc in a short-lived process in the namespace, because /proc shows the namespace of the
// process that mounts it. The short-lived process must not be the first of the namespace, because the namespace would
// end with it.
func (s *starter) mountProcInside(at int) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer r.Close()
	null, err := nullInput()
	if err != nil {
		w.Close()
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(fdPath(s.self), []string{"capstan-run", "proc"}, &syscall.ProcAttr{
		Env: []string{"GOMAXPROCS=1", "GOGC=off"}, Files: []uintptr{null.Fd(), null.Fd(), w.Fd(), uintptr(at)},
	})
	w.Close()
	if err != nil {
		return fmt.Errorf("starting a process to mount /proc: %w", err)
	}
	var text [200]byte
	n, _ := r.Read(text[:]) // empty on success
	if code := wait(pid); code != 0 {
		return fmt.Errorf("mounting /proc: %s", text[:max(n, 0)])
	}
	return nil
}

// becomeProc runs as the short-lived process of mountProcInside.
func becomeProc() int {
	if err := unix.Mount("proc", fdPath(procFD), "proc", kernelFlags, ""); err != nil {
		fmt.Fprint(os.Stderr, err)
		return 1
	}
	return 0
}
