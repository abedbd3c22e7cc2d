//go:build linux

package run

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

// TestBothWaysToMountProc checks that both ways to mount /proc have the same result: in a short-lived process, which
// older kernels need, and by the name of the PID namespace.
func TestBothWaysToMountProc(t *testing.T) {
	w := newWorld(t)
	// The first start of a program makes package os try out pidfds in another process. That process must not become the
	// first one of a new PID namespace.
	w.must(exec.Command(hosttest.Tool("program")).Run())
	self, err := os.Open(hosttest.Tool("capstan-run"))
	w.must(err)
	defer self.Close()
	for name, mount := range map[string]func(at int) error{
		"by a process": (&starter{self: int(self.Fd())}).mountProcInside, "by name": mountProcByName,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, line, err := inNewSpace(dir, mount)
			if name == "by name" && errors.Is(err, unix.EINVAL) {
				t.Skip("this kernel is older than 6.17")
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(first, "program\x00wait") {
				t.Errorf("the first process of the namespace is %q", first)
			}
			if !strings.HasSuffix(line, "rw,nosuid,nodev,noexec,relatime - proc proc rw") {
				t.Errorf("/proc is mounted like this: %s", line)
			}
		})
	}
}

// inNewSpace mounts /proc of a new PID namespace on a directory, in a new mount namespace. It returns the command line
// of the first process there, and the line of the mount table.
func inNewSpace(dir string, mount func(at int) error) (first, line string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlock: nothing else uses this thread any more
		var host int
		if host, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(host)
		if err = unix.Unshare(unix.CLONE_NEWPID | unix.CLONE_NEWNS); err != nil {
			return
		}
		defer unix.Setns(host, unix.CLONE_NEWNS) // if this is the main thread, it outlives the goroutine
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return
		}
		program := exec.Command(hosttest.Tool("program"), "wait")
		out, e := program.StdoutPipe()
		if err = errors.Join(e, program.Start()); err != nil {
			return
		}
		defer program.Wait()
		defer program.Process.Kill()
		if _, err = out.Read(make([]byte, 1)); err != nil { // the process has become the program
			return
		}
		at, e := os.Open(dir)
		if err = e; err != nil {
			return
		}
		defer at.Close()
		if err = mount(int(at.Fd())); err != nil {
			return
		}
		cmdline, e := os.ReadFile(filepath.Join(dir, "1", "cmdline"))
		table, e2 := os.ReadFile("/proc/thread-self/mountinfo")
		err = errors.Join(e, e2)
		first = string(cmdline)
		for l := range strings.Lines(string(table)) {
			if strings.Contains(l, " "+dir+" ") {
				line = strings.TrimSpace(l)
			}
		}
	}()
	<-done
	return first, line, err
}
