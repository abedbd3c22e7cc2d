package proc

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start runs a shell script and waits for its first line.
func start(t *testing.T, script, variable string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestEndFindsProcessesByTheirEnvironment(t *testing.T) {
	cases := map[string]struct {
		script string
		grace  time.Duration
	}{
		"a process that ends on SIGTERM": {"echo up; exec sleep 600", 10 * time.Second},
		"a process that ignores SIGTERM": {"trap '' TERM; echo up; while :; do sleep 600; done",
			50 * time.Millisecond},
		"a process in a new session": {"setsid sleep 600 & echo up; wait", 10 * time.Second},
		"a process that starts others": {"trap 'sleep 600 & sleep 600 &' TERM; echo up; while :; do sleep 600; done",
			50 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			variable := "PROC_TEST=" + t.TempDir()
			match := func(p Process) bool { return p.HasEnv(variable) }
			start(t, c.script, variable)
			if list, err := Select(match); err != nil || len(list) == 0 {
				t.Fatalf("Select returned %v, error %v", list, err)
			}
			left, err := End(t.Context(), match, c.grace, 30*time.Second)
			if err != nil || len(left) > 0 {
				t.Fatalf("processes are left: %v, error %v", left, err)
			}
		})
	}
}

func TestSelectDoesNotFindOthers(t *testing.T) {
	start(t, "echo up; exec sleep 600", "PROC_TEST=a-longer-name")
	list, err := Select(func(p Process) bool { return p.HasEnv("PROC_TEST=a") })
	if err != nil || len(list) > 0 {
		t.Fatalf("Select returned %v, error %v; want none", list, err)
	}
}

func TestListKnowsThePrograms(t *testing.T) {
	cmd := start(t, "echo up; while :; do sleep 600; done", "A=b")
	list, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.PID == os.Getpid() {
			t.Error("the list contains this process itself")
		}
		if p.PID == cmd.Process.Pid {
			// 0 is correct for a session that was created outside this PID namespace, as in a container.
			session, err := unix.Getsid(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != "sh" || p.Exe() == "" || p.Session != session {
				t.Errorf("got %+v, want session %d", p, session)
			}
			return
		}
	}
	t.Error("the child is not in the list")
}

// TestAnOuterProcIsSeenThrough: in a local host of an unprivileged user, /proc may be the machine's. List must return
// only the processes of our own PID namespace, with their ids in that namespace.
func TestAnOuterProcIsSeenThrough(t *testing.T) {
	if os.Getenv("INNER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "INNER=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Skipf("namespaces can't be made here: %v", err)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	variable := "PROC_TEST=inner"
	cmd := start(t, "echo up; while :; do sleep 600; done", variable)
	list, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.PID != cmd.Process.Pid && !p.HasEnv(variable) {
			t.Errorf("the list contains a process of another namespace: %+v", p)
		}
	}
	if left, err := End(t.Context(), func(p Process) bool { return p.HasEnv(variable) }, time.Second,
		20*time.Second); err != nil {
		t.Errorf("processes are left: %v, error %v", left, err)
	}
	if len(list) == 0 {
		t.Error("the list is empty")
	}
}
