//go:build linux

package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/reap"
)

func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reaper = reap.New()
	code := m.Run()
	reaper.Close()
	os.Exit(code)
}

var reaper *reap.Reaper // one per process

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(reaper, Command{
		Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "A=2"}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		if err := p.KillRest(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func exists(t *testing.T, path string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s does not appear within 10 s", path)
		}
	}
}

func alive(t *testing.T, pidFile string) bool {
	t.Helper()
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !bytes.Contains(status, []byte("State:\tZ"))
}

// family starts a shell, a child in its session, and a grandchild that has left the session and the process group.
func family(t *testing.T, trap string) (p *Process, dir string) {
	dir = t.TempDir()
	p = start(t, fmt.Sprintf(`%s
cd %s
sh -c 'echo $$ > child.new; mv child.new child; exec sleep 60' &
setsid sh -c 'echo $$ > grandchild.new; mv grandchild.new grandchild; exec sleep 60' &
touch up
while :; do wait; done`, trap, dir))
	for _, name := range []string{"child", "grandchild", "up"} {
		exists(t, filepath.Join(dir, name))
	}
	return p, dir
}

func TestStop(t *testing.T) {
	const stubborn = `trap "touch termed" TERM`
	for name, c := range map[string]struct {
		trap     string
		mode     Mode
		signal   syscall.Signal // how the main process ends
		restLive bool
	}{
		"the whole group ends on SIGTERM":             {"", WholeGroup, syscall.SIGTERM, false},
		"a process that ignores SIGTERM gets SIGKILL": {stubborn, WholeGroup, syscall.SIGKILL, false},
		"in mixed mode the others get SIGKILL":        {"", MixedGroup, syscall.SIGTERM, false},
		"in process mode the others live on":          {"", MainProcess, syscall.SIGTERM, true},
		"an unknown mode means the whole group":       {"", "", syscall.SIGTERM, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := family(t, c.trap)
			if err := p.Stop(300*time.Millisecond, c.mode); err != nil {
				t.Fatal(err)
			}
			if s := p.Status(); s.Signal() != c.signal {
				t.Errorf("the main process %s", reap.Describe(s))
			}
			for _, who := range []string{"child", "grandchild"} {
				if got := alive(t, filepath.Join(dir, who)); got != c.restLive {
					t.Errorf("%s is alive: %v", who, got)
				}
			}
			if err := p.KillRest(); err != nil {
				t.Fatal(err)
			}
			for _, who := range []string{"child", "grandchild"} {
				if alive(t, filepath.Join(dir, who)) {
					t.Errorf("%s is alive after KillRest", who)
				}
			}
		})
	}
}

func TestStopOfNoProcessWaits(t *testing.T) {
	p, dir := family(t, "")
	began := time.Now()
	if err := p.Stop(100*time.Millisecond, NoProcess); err != nil || time.Since(began) < 100*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	select {
	case <-p.Done():
		t.Errorf("the main process %s", reap.Describe(p.Status()))
	default:
	}
	for _, who := range []string{"child", "grandchild"} {
		if !alive(t, filepath.Join(dir, who)) {
			t.Errorf("Stop ended the %s", who)
		}
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(10*time.Second, NoProcess); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Stop did not wait for the main process to end")
	}
}

func TestOnlyItsOwnProcessesAreKilled(t *testing.T) {
	one, _ := family(t, "")
	two, dir := family(t, "")
	if err := one.Stop(time.Second, WholeGroup); err != nil {
		t.Fatal(err)
	}
	select {
	case <-two.Done():
		t.Error("another command was ended too")
	default:
	}
	if !alive(t, filepath.Join(dir, "grandchild")) {
		t.Error("a grandchild of another command was ended too")
	}
}

func TestTheLastOfEqualVariablesWins(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "echo $A > "+dir+"/a; test -n \"$INVOCATION_ID\"")
	if s := p.Status(); s != 0 {
		t.Errorf("the process %s", reap.Describe(s))
	}
	if got, _ := os.ReadFile(dir + "/a"); string(got) != "2\n" {
		t.Errorf("A is %q", got)
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	for _, argv := range [][]string{nil, {"no-such-program"}, {"/no/such/program"}} {
		if _, err := Start(reaper, Command{Argv: argv, Env: []string{"PATH=/bin"}}); err == nil ||
			(argv != nil && !strings.Contains(err.Error(), argv[0])) {
			t.Errorf("%q: error is %v", argv, err)
		}
	}
}
