//go:build linux

// Package supervise runs commands under a PID 1. Each command has its own session and is stopped together with
// everything that it started.
package supervise

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock/reap"
)

// Command describes a command to run.
type Command struct {
	Argv   []string // Argv[0] without a slash is looked up in PATH of Env
	Env    []string // the whole environment; the last of equal names wins
	Dir    string   // "" is /
	Output *os.File // standard output and error; nil discards
}

// Process is a running Command.
type Process struct {
	*reap.Child
	// Started is the time of the start.
	Started time.Time

	mark string
}

// Start starts the command. Its standard input is empty.
func Start(r *reap.Reaper, c Command) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("starting a command: it is empty")
	}
	path, err := lookup(c.Argv[0], c.Env)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	defer null.Close()
	output := c.Output
	if output == nil {
		output = null
	}
	mark := newMark()
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	child, err := r.Start(path, c.Argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   last(append(append([]string(nil), c.Env...), markName+"="+mark)),
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	return &Process{Child: child, Started: time.Now(), mark: mark}, nil
}

// Mode selects which processes Stop stops in addition to the main process. The values are systemd's KillMode.
type Mode string

// The modes that Stop knows. It treats any other as WholeGroup.
const (
	WholeGroup  Mode = "control-group" // SIGTERM, later SIGKILL, to all
	MixedGroup  Mode = "mixed"         // SIGTERM to the main process, SIGKILL to all others that remain
	MainProcess Mode = "process"       // only the main process
	NoProcess   Mode = "none"          // none: Stop only waits
)

// Stop stops the process and, depending on mode, everything that it started: SIGTERM, then SIGKILL after grace. It
// returns when they are gone, or with an error if a process survives SIGKILL for 5 seconds (for example because it
// waits for a disk). In mode NoProcess, Stop sends nothing and returns when the main process has ended or grace is
// over.
func (p *Process) Stop(grace time.Duration, mode Mode) error {
	if mode == NoProcess {
		p.wait(grace)
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if mode != MainProcess && mode != MixedGroup {
		group, _ := members(p.mark, p.Pid)
		signalAll(group, syscall.SIGTERM)
	}
	if !p.wait(grace) {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		if !p.wait(killWait) {
			return fmt.Errorf("process %d is still running %v after SIGKILL", p.Pid, killWait)
		}
	}
	if mode == MainProcess {
		return nil
	}
	return p.KillRest()
}

// wait waits for the main process to end and reports whether it did so within limit.
func (p *Process) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.Done():
		return true
	case <-timer.C:
		return false
	}
}

// killWait is how long a process may take to disappear after SIGKILL.
const killWait = 5 * time.Second

// KillRest kills the remaining descendants of a process that has ended, and waits for them to end.
func (p *Process) KillRest() error {
	deadline := time.Now().Add(killWait)
	empty := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		rest, unsettled := members(p.mark, p.Pid)
		if empty++; len(rest) > 0 {
			empty = 0
		}
		if (empty >= emptyScans && !unsettled) || empty >= unsettledScans {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v are still running %v after SIGKILL", rest, killWait)
		}
		signalAll(rest, syscall.SIGKILL)
		time.Sleep(pause)
	}
}

// One look at all processes is not enough: it can easily miss a process that forks and exits, or that executes another
// program.
const (
	emptyScans     = 2 // scans in a row that must find nothing
	unsettledScans = 6 // scans in a row after which a process without an environment is not ours
)

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, sig) // it may have ended already
	}
}

// lookup finds a program as a shell would, but in the PATH of env.
func lookup(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, pair := range env {
		if v, ok := strings.CutPrefix(pair, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("starting %s: %w in PATH %s", name, fs.ErrNotExist, path)
}

// last keeps the last of equal names; getenv would return the first.
func last(env []string) []string {
	seen := map[string]bool{}
	out := make([]string, 0, len(env))
	for i := len(env) - 1; i >= 0; i-- {
		name, _, ok := strings.Cut(env[i], "=")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, env[i])
	}
	return out
}

func newMark() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
