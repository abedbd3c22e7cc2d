//go:build linux

package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHowContainersEnd(t *testing.T) {
	w := newWorld(t)
	cases := map[string]struct {
		args   []string
		signal unix.Signal
		code   int
		out    string
	}{
		"a program that succeeds":     {[]string{"say=hello", "complain=oops"}, 0, 0, "hello\noops\n"},
		"a program with an exit code": {[]string{"exit=42"}, 0, 42, ""},
		"a stopped program":           {[]string{"term"}, unix.SIGTERM, 7, "waiting\nending\n"},
		"a killed program":            {[]string{"wait"}, unix.SIGKILL, 137, "waiting\n"},
		"an orphan of the program":    {[]string{"orphan", "exit=3"}, 0, 3, ""},
		"a signal that is ignored":    {[]string{"ignore", "say=x", "exit=5"}, 0, 5, "x\n"},
		"standard output by its name": {[]string{"reopen"}, 0, 0, "reopened\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := w.start(w.spec(c.args...))
			if c.signal != 0 {
				b.says("waiting")
				w.must(unix.Kill(b.report.PID, c.signal))
			}
			if code := b.wait(); code != c.code || !strings.Contains(b.output(), c.out) {
				t.Errorf("the container ended with %d and %q, want %d and %q", code, b.output(), c.code, c.out)
			}
		})
	}
}

func TestTheSupervisorForwardsSignals(t *testing.T) {
	w := newWorld(t)
	b := w.start(w.spec("term"))
	b.says("waiting")
	w.must(b.cmd.Process.Signal(unix.SIGTERM))
	if code := b.wait(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
}

func TestAKilledSupervisorTakesItsContainerAlong(t *testing.T) {
	w := newWorld(t)
	for name, spec := range map[string]*Spec{"as root": w.spec("wait"), "as another user": w.spec("wait")} {
		t.Run(name, func(t *testing.T) {
			if name != "as root" {
				spec.Process.User.Name = "web"
			}
			b := w.start(spec)
			b.says("waiting")
			w.must(b.cmd.Process.Kill())
			<-b.ended
			w.waitFor("the program to end", func() bool {
				unix.Wait4(b.report.PID, nil, unix.WNOHANG, nil)
				return errors.Is(unix.Kill(b.report.PID, 0), unix.ESRCH)
			}, func() string { return "it runs" })
			if _, ok, err := ReadExit(b.dir); ok || err != nil {
				t.Errorf("an exit is recorded: %v", err)
			}
		})
	}
}

func TestARunningContainerIsRecorded(t *testing.T) {
	w := newWorld(t)
	b := w.start(w.spec("wait"))
	on, ok, err := ReadRunning(b.dir)
	if err != nil || !ok || on.PID != b.report.PID || on.Started == "" || on.Started != b.report.Started {
		t.Errorf("the report on disk is %+v, %v, %v; the report sent is %+v", on, ok, err, b.report)
	}
	if started, err := startTime(on.PID); err != nil || started != on.Started {
		t.Errorf("the process was started at %s (%v), but %s is recorded", started, err, on.Started)
	}
}

func TestStandardInput(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("echo")
	spec.Process.Stdin = true
	b := w.start(spec)
	path := filepath.Join(b.dir, StdinFile)
	for _, line := range []string{"one", "two"} { // each writer comes and goes
		w.must(os.WriteFile(path, []byte(line+"\n"), 0))
		b.says("got " + line)
	}
	if strings.Contains(b.output(), "input ended") {
		t.Error("the input ended when a writer closed it")
	}
	w.must(b.cmd.Process.Signal(unix.SIGUSR1))
	if code := b.wait(); code != 0 || !strings.Contains(b.output(), "input ended") {
		t.Errorf("exit code %d, output %q", code, b.output())
	}
}

func TestATerminal(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("facts", "echo")
	spec.Process.Terminal, spec.Process.Stdin, spec.Process.Rows, spec.Process.Cols = true, true, 33, 77
	b := w.start(spec)
	pidfd, err := unix.PidfdOpen(b.cmd.Process.Pid, 0)
	w.must(err)
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, b.report.Terminal, 0)
	w.must(err)
	terminal := os.NewFile(uintptr(fd), "terminal")
	w.must(b.cmd.Process.Signal(unix.SIGUSR2)) // confirm that the terminal was taken over
	defer terminal.Close()
	var out strings.Builder
	buf := make([]byte, 1<<16)
	until := func(text string) {
		for !strings.Contains(out.String(), text) {
			n, err := terminal.Read(buf)
			if err != nil {
				t.Fatalf("reading the terminal: %v; got %q", err, out.String())
			}
			out.Write(buf[:n])
		}
	}
	until("}\r\n")
	line, _, _ := strings.Cut(out.String(), "\r\n")
	if f := parse(t, line); !f.Terminal || f.Rows != 33 || f.Cols != 77 {
		t.Errorf("the program has a terminal: %v; its size is %d, %d", f.Terminal, f.Rows, f.Cols)
	}
	_, err = terminal.WriteString("typed\n")
	w.must(err)
	until("got typed\r\n")
	_, err = terminal.WriteString("\x04") // end of input
	w.must(err)
	until("input ended\r\n")
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := terminal.Read(buf); err == nil || errors.Is(err, fs.ErrClosed) {
		t.Errorf("reading the terminal after the end: %v, want an error", err)
	}
}

func TestExec(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("term")
	spec.Process.User.Name = "web"
	b := w.start(spec)
	b.says("waiting")
	p := spec.Process
	p.Args = []string{"program", "facts"}
	out, code, report := b.exec(p)
	if code != 0 || report.Error != "" {
		t.Fatalf("exit code %d, %+v: %s", code, report, out)
	}
	f := parse(t, out)
	if f.UID != 101 || f.GID != 102 || f.Host != "pod" || f.PID == 1 || f.Status["CapBnd"] != "00000000000004e1" ||
		f.Status["CapEff"] != "0000000000000000" || f.Status["NoNewPrivs"] != "1" {
		t.Errorf("facts: %+v", f)
	}
	for _, ns := range []string{"pid", "net", "ipc", "uts", "mnt"} {
		if theirs, err := os.Readlink("/proc/" + itoa(b.report.PID) + "/ns/" + ns); err != nil ||
			theirs != f.Namespaces[ns] {
			t.Errorf("%s namespace is %s, the container's %s (%v)", ns, f.Namespaces[ns], theirs, err)
		}
	}
	p.Args = []string{"program", "exit=9"}
	if _, code, _ := b.exec(p); code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	p.Args = []string{"no-such-program"}
	if _, _, report := b.exec(p); !strings.Contains(report.Error, "executable file not found") {
		t.Errorf("report %+v", report)
	}
	w.must(unix.Kill(b.report.PID, unix.SIGTERM))
	if code := b.wait(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if _, _, report := b.exec(p); !strings.Contains(report.Error, "the container has ended") {
		t.Errorf("report %+v", report)
	}
}
