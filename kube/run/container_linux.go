package run

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervise runs the container of a directory until it has ended, and returns its exit code. Standard output and error
// are the container's.
func supervise(dir string, report *os.File) (int, error) {
	spec, ok, err := readJSON[Spec](filepath.Join(dir, SpecFile))
	if err != nil || !ok {
		return 0, fmt.Errorf("reading what to run from %s: %w", filepath.Join(dir, SpecFile), orMissing(err))
	}
	in, keeper, err := openInput(dir, &spec)
	if err != nil {
		return 0, err
	}
	s, err := newStarter(spec.Groups)
	if err != nil {
		return 0, err
	}
	var child atomic.Int64
	forward(&child, keeper)
	return inThread(func() (int, error) {
		started, mounts, err := startContainer(s, dir, &spec, in)
		if err != nil {
			return 0, err
		}
		in.Close()
		child.Store(int64(started.PID))
		taken := terminalTaken(started.Terminal, func() {})
		ask := make(chan error, 1)
		go func() { ask <- announce(dir, &started, report) }() // in another thread: this one no longer sees the host
		if err := <-ask; err != nil {
			kill(started.PID)
			return 0, err
		}
		spec = Spec{}
		time.AfterFunc(shrinkDelay, debug.FreeOSMemory) // release the memory used for starting
		code := wait(started.PID)
		child.Store(0)
		taken()
		done := make(chan error, 1)
		go func() { done <- conclude(dir, code, mounts) }()
		// An error in writing the exit is ignored, because nobody is left to report it to. This process's exit code reports
		// the end, too.
		<-done
		return code, nil
	})
}

// shrinkDelay leaves the processors to the program while it starts.
const shrinkDelay = time.Second

func orMissing(err error) error {
	if err == nil {
		return os.ErrNotExist
	}
	return err
}

// openInput opens the container's standard input. keeper holds the pipe's other end open, so that the input does not
// end when a caller dies. Without input, in is /dev/null and keeper is nil.
func openInput(dir string, spec *Spec) (in, keeper *os.File, err error) {
	if !spec.Process.Stdin || spec.Process.Terminal {
		in, err = nullInput()
		return in, nil, err
	}
	path := filepath.Join(dir, StdinFile)
	// Open it for reading and writing, or the open would wait for a writer. The program's end is opened separately;
	// otherwise the program would never see the end of the input.
	if keeper, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, nil, fmt.Errorf("opening standard input: %w", err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening standard input: %w", err)
	}
	return os.NewFile(uintptr(fd), path), keeper, nil
}

// forward passes signals on to the program. SIGUSR1 closes its standard input.
func forward(child *atomic.Int64, keeper *os.File) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1)
	go func() {
		for received := range signals {
			s, _ := received.(syscall.Signal)
			if s == unix.SIGUSR1 {
				if keeper != nil {
					keeper.Close()
				}
				continue
			}
			if pid := child.Load(); pid > 0 {
				unix.Kill(int(pid), s)
			}
		}
	}()
}

// startContainer creates the namespaces and the root, and starts the program. mounts identifies the container's mount
// namespace if that is needed to find processes that the program leaves behind.
func startContainer(s *starter, dir string, spec *Spec, in *os.File) (report Report, mounts string, err error) {
	for _, ns := range []struct {
		path string
		kind int
	}{
		{spec.Namespaces.Net, unix.CLONE_NEWNET}, {spec.Namespaces.IPC, unix.CLONE_NEWIPC},
		{spec.Namespaces.UTS, unix.CLONE_NEWUTS}, {spec.Namespaces.PID, unix.CLONE_NEWPID},
	} {
		if err := join(ns.path, ns.kind); err != nil {
			return report, "", err
		}
	}
	if spec.Hostname != "" && spec.Namespaces.UTS == New {
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return report, "", fmt.Errorf("setting the host name: %w", err)
		}
	}
	stdio := [3]*os.File{in, os.Stdout, os.Stderr}
	if spec.Pause {
		p, err := s.spawn(order{Pause: true}, stdio)
		if err != nil {
			return report, "", err
		}
		report, err = p.release()
		return report, "", err
	}
	t, err := beginRoot(dir, spec, s.ids)
	if err != nil {
		return report, "", err
	}
	defer unix.Close(t.fd)
	if spec.Namespaces.PID != New {
		if mounts, err = os.Readlink(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid())); err != nil {
			return report, "", fmt.Errorf("finding the container's mount namespace: %w", err)
		}
	}
	p, terminal, err := s.spawnIn(t, &spec.Process, spec.OwnGroups, stdio)
	if err != nil {
		return report, "", err
	}
	advice, err := s.ids.advice(t, p.order.Identity)
	var notes []string
	if err == nil {
		notes, err = s.mountProc(t, spec.Namespaces.PID)
	}
	if err == nil {
		err = t.finishRoot(spec)
	}
	if err != nil {
		kill(p.pid)
		p.close()
		return report, "", err
	}
	if report, err = p.release(); err != nil {
		return report, "", err
	}
	report.Terminal, report.Advice = terminal, advice
	report.Notes = append(notes, report.Notes...)
	return report, mounts, nil
}

// spawnIn looks up the user in a container's root, opens the terminal, and starts the process that becomes the program.
func (s *starter) spawnIn(t tree, process *Process, ownGroups bool, stdio [3]*os.File,
) (p *spawned, terminal int, err error) {
	id, err := t.lookUp(process.User)
	if err != nil {
		return nil, 0, err
	}
	if _, ok := variable(process.Env, "HOME"); !ok {
		process.Env = append(process.Env, "HOME="+id.Home)
	}
	if process.Terminal {
		slave, err := t.openTerminal(process)
		if err != nil {
			return nil, 0, err
		}
		defer slave.Close()
		stdio = [3]*os.File{slave, slave, slave}
		terminal = terminalFD
	}
	p, err = s.spawn(order{Process: *process, Identity: id, OwnGroups: ownGroups}, stdio)
	return p, terminal, err
}

// announce completes the report of a running container, writes it to disk, and sends it.
func announce(dir string, started *Report, report *os.File) error {
	var err error
	// Even a program that has already ended still has its entry in /proc, because nobody has waited for it.
	if started.Started, err = startTime(started.PID); err != nil {
		return fmt.Errorf("looking at the container's process (is /proc that of this host?): %w", err)
	}
	if err := writeJSON(filepath.Join(dir, RunningFile), started); err != nil {
		return err
	}
	sendReport(report, *started)
	return nil
}

// conclude kills what the program left in shared PID namespaces, and writes how it ended.
func conclude(dir string, code int, mounts string) error {
	if mounts != "" {
		killIn(mounts)
	}
	return writeJSON(filepath.Join(dir, ExitFile), Exit{Code: int32(code), At: time.Now().UnixNano()})
}

// killRounds bounds how often to look for processes that others start meanwhile.
const killRounds = 100

// killIn kills all processes in a container's mount namespace except this one, its supervisor.
func killIn(mounts string) {
	self := os.Getpid()
	for range killRounds {
		found := false
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == self {
				continue
			}
			if ns, err := os.Readlink("/proc/" + name + "/ns/mnt"); err != nil || ns != mounts {
				continue
			}
			found = unix.Kill(pid, unix.SIGKILL) == nil || found
		}
		if !found {
			return
		}
		time.Sleep(time.Millisecond) // they end soon
	}
}
