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

// mountProc mounts /proc in the tree. /proc shows the PID namespace of the process that mounts it. So a short-lived
// process does that in the container's namespace, where the program's process already waits: the namespace's first
// process must not be the one that exits. notes says what was left out.
func (s *starter) mountProc(t tree, namespace string) (notes []string, err error) {
	if namespace == Host {
		err = t.mount("proc", "/proc", kernelFlags, "")
	} else {
		err = s.mountProcInside(t)
	}
	if err == nil {
		return nil, nil
	}
	refused := err
	if err := t.bind("/proc", "/proc"); err != nil {
		return nil, errors.Join(refused, err)
	}
	return []string{fmt.Sprintf("/proc is the host's: %v (are parts of the machine's covered?)", refused)}, nil
}

func (s *starter) mountProcInside(t tree) error {
	at, err := t.ensure("/proc", true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
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

// becomeProc is that process.
func becomeProc() int {
	if err := unix.Mount("proc", fdPath(procFD), "proc", kernelFlags, ""); err != nil {
		fmt.Fprint(os.Stderr, err)
		return 1
	}
	return 0
}
