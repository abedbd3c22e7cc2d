package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Main is capstan-run: args is its command line, including its name. It returns the exit code. The caller has locked
// the main goroutine to the main thread.
func Main(args []string) int {
	if len(args) > 0 && filepath.Base(args[0]) == pauseName {
		return pauseProgram()
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr,
			"capstan-run: only the CRI server calls this program; its commands are: container DIRECTORY, exec, check")
		return 2
	}
	switch {
	case args[1] == "init" && len(args) == 2:
		return becomeProgram()
	case args[1] == "proc" && len(args) == 2:
		return becomeProc()
	case args[1] == "container" && len(args) == 3:
		return reported(func(report *os.File) (int, error) { return supervise(args[2], report) })
	case args[1] == "exec" && len(args) == 2:
		return reported(execute)
	case args[1] == "check" && len(args) == 2:
		return 0 // the caller only checks whether a program can start with these ids
	}
	fmt.Fprintf(os.Stderr, "capstan-run: unknown arguments %q\n", args[1:])
	return 2
}

// reported calls f, reports its error, and returns its exit code.
func reported(f func(report *os.File) (int, error)) int {
	unix.CloseOnExec(ReportFD)
	report := os.NewFile(ReportFD, "report")
	code, err := f(report)
	if err != nil {
		sendReport(report, Report{Error: err.Error()})
		return 1
	}
	return code
}

// sendReport sends the report. If the caller was killed, nobody receives it.
func sendReport(report *os.File, r Report) {
	if data, err := json.Marshal(r); err == nil {
		report.Write(data)
	}
	report.Close()
}

// inThread runs f in a goroutine that is locked to its thread. f may change the thread's namespaces and root, because
// no other goroutine runs in this thread. When the thread exits, the kernel kills the programs that f has started, so f
// must wait for them.
func inThread(f func() (int, error)) (int, error) {
	type outcome struct {
		code int
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread()
		code, err := f()
		ended <- outcome{code, err}
		select {} // the process exits now
	}()
	o := <-ended
	return o.code, o.err
}

// nullInput opens /dev/null for reading.
func nullInput() (*os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	return null, nil
}

// join moves this thread into a new namespace, or into the one at a path.
func join(path string, kind int) error {
	var err error
	switch path {
	case Host:
		return nil
	case New:
		err = unix.Unshare(kind)
	default:
		var fd int
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("joining a namespace: %w", &os.PathError{Op: "open", Path: path, Err: err})
		}
		defer unix.Close(fd)
		err = unix.Setns(fd, kind)
	}
	if err != nil {
		return fmt.Errorf("joining %s namespace %q: %w", kinds[kind], path, err)
	}
	return nil
}

var kinds = map[int]string{
	unix.CLONE_NEWPID: "PID", unix.CLONE_NEWNET: "network", unix.CLONE_NEWIPC: "IPC", unix.CLONE_NEWUTS: "UTS",
	unix.CLONE_NEWNS: "mount", unix.CLONE_NEWCGROUP: "control group",
}

// errGone is returned when the container in which to execute a program has ended.
var errGone = errors.New("the container has ended")
