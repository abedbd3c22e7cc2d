package run

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// execute runs another program in a container, with the standard streams of this process, and returns its exit code.
func execute(report *os.File) (int, error) {
	var e Exec
	spec := os.NewFile(SpecFD, "spec")
	err := json.NewDecoder(spec).Decode(&e)
	spec.Close()
	if err != nil {
		return 0, fmt.Errorf("reading what to run: %w", err)
	}
	s, err := newStarter(e.Groups)
	if err != nil {
		return 0, err
	}
	return inThread(func() (int, error) {
		if err := enter(e.PID); err != nil {
			return 0, err
		}
		t, err := openTree("/")
		if err != nil {
			return 0, err
		}
		stdio := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
		p, terminal, err := s.spawnIn(t, &e.Process, false, stdio)
		if err != nil {
			return 0, err
		}
		started, err := p.release()
		if err != nil {
			return 0, err
		}
		closeAll(stdio[:]...) // the program has its own copies, and may close them
		started.Terminal = terminal
		taken := terminalTaken(terminal, func() { unix.Close(terminalFD) })
		sendReport(report, started)
		code := wait(started.PID)
		taken()
		return code, nil
	})
}

// takenLimit is how long capstan-run keeps the terminal of an exited program open until another process has taken it
// over. That process reads the remaining output.
const takenLimit = 10 * time.Second

// terminalTaken waits for SIGUSR2, which confirms that the terminal was taken over, and then calls f. It returns a
// function that waits until that has happened. Without a terminal there is nothing to wait for.
func terminalTaken(terminal int, f func()) (wait func()) {
	if terminal == 0 {
		return func() {}
	}
	signals, taken := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGUSR2)
	go func() {
		<-signals
		f()
		close(taken)
	}()
	return func() {
		select {
		case <-taken:
		case <-time.After(takenLimit):
		}
	}
}

// enter moves this thread into the namespaces of a container's process.
func enter(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid) + "/ns/"
	type namespace struct {
		kind, fd int
	}
	var all []namespace
	defer func() {
		for _, ns := range all {
			unix.Close(ns.fd)
		}
	}()
	// Open all of them before entering the mount namespace, after which /proc is the container's.
	for _, ns := range []struct {
		name string
		kind int
	}{
		{"net", unix.CLONE_NEWNET}, {"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"pid", unix.CLONE_NEWPID},
		{"cgroup", unix.CLONE_NEWCGROUP}, {"mnt", unix.CLONE_NEWNS},
	} {
		if ns.kind == unix.CLONE_NEWCGROUP && sameNamespace(dir+ns.name, "/proc/self/ns/"+ns.name) {
			continue // joining requires rights in the user namespace that owns it, which may be the machine's
		}
		fd, err := unix.Open(dir+ns.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%w: %w", errGone, &os.PathError{Op: "open", Path: dir + ns.name, Err: err})
		}
		all = append(all, namespace{ns.kind, fd})
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("giving this thread its own root and working directory: %w", err)
	}
	for _, ns := range all {
		if err := unix.Setns(ns.fd, ns.kind); err != nil {
			return fmt.Errorf("joining the container's %s namespace: %w", kinds[ns.kind], err)
		}
	}
	return nil
}

// sameNamespace reports whether two files in /proc name the same namespace.
func sameNamespace(a, b string) bool {
	first, err := os.Readlink(a)
	if err != nil {
		return false
	}
	second, err := os.Readlink(b)
	return err == nil && first == second
}
