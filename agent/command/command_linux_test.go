package command

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/proc"
)

// The test binary acts as an agent that is killed while its command runs.
func TestMain(m *testing.M) {
	if mark := os.Getenv("PLAY_AGENT"); mark != "" {
		_ = Command{
			Args: []string{"sh", "-c", "sh -c 'echo up; sleep 600' & wait"}, Output: os.Stdout, Mark: mark, Limit: time.Hour,
		}.Run(context.Background())
		return
	}
	os.Exit(m.Run())
}

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func marked(t *testing.T, mark string) []proc.Process {
	t.Helper()
	list, err := proc.Select(func(p proc.Process) bool { return p.HasEnv(markVariable + "=" + mark) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRun(t *testing.T) {
	cases := map[string]struct {
		command Command
		status  int
		output  string
	}{
		"output of both kinds is kept": {Command{Args: []string{"sh", "-c", "echo a; echo b >&2"}}, 0, "a\nb\n"},
		"the exit status is reported":  {Command{Args: []string{"sh", "-c", "exit 7"}}, 7, ""},
		"a signal becomes a status":    {Command{Args: []string{"sh", "-c", "kill -9 $$"}}, 137, ""},
		"stdin is passed on":           {Command{Args: []string{"cat"}, Stdin: "hello"}, 0, "hello"},
		"stdin that is not read":       {Command{Args: []string{"true"}, Stdin: strings.Repeat("x", 1<<20)}, 0, ""},
		"variables are set": {Command{Args: []string{"sh", "-c", "echo $A $HOME"}, Env: []string{"A=b"}}, 0,
			"b /root\n"},
		"variables are not inherited": {Command{Args: []string{"sh", "-c", "echo ${INHERITED:-none}"}}, 0, "none\n"},
	}
	t.Setenv("INHERITED", "yes")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out := &buffer{}
			c.command.Output = out
			err := c.command.Run(t.Context())
			var exit *StatusError
			if c.status == 0 && err != nil || c.status != 0 && (!errors.As(err, &exit) || exit.Status != c.status) {
				t.Errorf("got %v, want status %d", err, c.status)
			}
			if out.String() != c.output {
				t.Errorf("output %q, want %q", out, c.output)
			}
		})
	}
}

func TestAMissingProgram(t *testing.T) {
	err := Command{Args: []string{"no-such-program"}}.Run(t.Context())
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install it") {
		t.Errorf("got %v", err)
	}
}

func TestACommandThatTakesTooLongIsEndedWithAllThatItStarted(t *testing.T) {
	mark := rand.Text()
	c := Command{Args: []string{"sh", "-c", "setsid sleep 600 & sleep 600"}, Mark: mark, Limit: 200 * time.Millisecond}
	if err := c.Run(t.Context()); !errors.Is(err, ErrLimit) {
		t.Fatalf("got %v", err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestACommandEndsWithTheContext(t *testing.T) {
	mark := rand.Text()
	ctx, cancel := context.WithCancel(t.Context())
	c := Command{Args: []string{"sh", "-c", "setsid sleep 600 & sleep 600"}, Mark: mark, Started: cancel}
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestWhatACommandLeavesRunningOnPurposeGoesOn(t *testing.T) {
	mark := rand.Text()
	out := &buffer{}
	if err := (Command{
		Args: []string{"sh", "-c", "sleep 600 & echo done"}, Mark: mark, Output: out,
	}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(marked(t, mark)) != 1 || out.String() != "done\n" {
		t.Errorf("processes %v, output %q", marked(t, mark), out)
	}
	if err := EndMarked(t.Context(), mark); err != nil || len(marked(t, mark)) > 0 {
		t.Errorf("%v; processes left: %v", err, marked(t, mark))
	}
}

func TestACommandOfAKilledAgentIsFoundAndEnded(t *testing.T) {
	mark := rand.Text()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), "PLAY_AGENT="+mark)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if err := EndMarked(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestTheLogIsBoundedAndKeepsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "log")
	l, err := OpenLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		l.Printf("%s", strings.Repeat("x", 80))
	}
	l.Printf("the end")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		if err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
	data, _ := os.ReadFile(path)
	if !strings.HasSuffix(string(data), "the end\n") {
		t.Errorf("the log ends with %q", data[max(0, len(data)-20):])
	}
}
