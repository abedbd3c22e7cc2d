//go:build linux

// Package outside is the outer process of a dock. It creates the namespaces with PID 1 in them, opens listeners on the
// machine for PID 1, and exits when PID 1 exits.
package outside

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/handoff"
	"github.com/capstan-dev/capstan/dock/scope"
	"github.com/capstan-dev/capstan/internal/environ"
)

// Exit statuses of `capstan-dock run`.
const (
	ExitFailed = 1
	ExitLocked = 75 // another dock runs already (EX_TEMPFAIL)
)

// File descriptors that PID 1 in the dock inherits.
const (
	HandoffFD = 3
	LockFD    = 4
)

// previousLimit is how long the processes of a killed dock may take to disappear.
const previousLimit = 20 * time.Second

// stopLimit is how long everything in the dock may take to stop cleanly.
const stopLimit = 60 * time.Second

// Config configures Run.
type Config struct {
	Dir string // HOME/dock
	// Images is the command of the image store, which Run keeps running; nil means no store.
	Images []string
	Inside []string // arguments with which this program runs as PID 1 in the dock
	Log    *log.Logger
}

// Run creates the dock and returns when it has stopped. When ctx ends, Run stops the dock cleanly. The calling
// goroutine must be locked to the main thread: PID 1 dies with the thread that started it.
func Run(ctx context.Context, c Config) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(16 << 20)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("making the dock's directory: %w", err)
	}
	held, err := lock(c.Dir)
	if err != nil {
		return err
	}
	defer held.Close()
	record := filepath.Join(c.Dir, "process.json")
	if err := awaitPrevious(record, previousLimit); err != nil {
		return err
	}
	if err := enterScope(ctx, c.Dir); err != nil {
		c.Log.Printf("hosts have no limits: %v", err)
	}
	outer, inner, err := handoff.Pair()
	if err != nil {
		return err
	}
	defer outer.Close()
	cmd, err := startInside(c, []*os.File{inner, held})
	inner.Close()
	if err != nil {
		return explain(err)
	}
	imagesCtx, stopImages := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		keepImages(imagesCtx, c)
	}()
	go keepWayOut(imagesCtx, c)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := handoff.Serve(outer); err != nil {
			c.Log.Printf("serving listeners: %v", err)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if p, err := identify(cmd.Process.Pid); err == nil {
		if err := p.write(record); err != nil {
			c.Log.Printf("recording the dock's first process: %v", err)
		}
	}
	err = await(ctx, cmd, ended)
	stopImages()
	<-kept
	outer.Close()
	<-served
	return err
}

// enterScope moves this process into a control group that an ordinary user may divide. Root needs no such group, and
// with cgroup version 1 there is none.
func enterScope(ctx context.Context, dir string) error {
	if os.Geteuid() == 0 || !cgroup.IsUnified() {
		return nil
	}
	return scope.Enter(ctx, cgroup.ID(dir))
}

// startInside starts PID 1 in the dock. For an ordinary user, it maps the user's subordinate ids. If that is
// impossible, the dock has only one id.
func startInside(c Config, files []*os.File) (*exec.Cmd, error) {
	command := func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", c.Inside...)
		cmd.Args[0] = "capstan-dock"
		cmd.Dir, cmd.Env = "/", environ.Child()
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.ExtraFiles = files
		cmd.SysProcAttr = attributes()
		return cmd
	}
	if Rootless() && os.Geteuid() != 0 {
		ids, err := findSubordinate()
		if err == nil {
			cmd := command()
			if err = startWithIDs(cmd, "/proc/self/exe", ids); err == nil {
				return cmd, nil
			}
		}
		c.Log.Printf("hosts have one id: %v", err)
	}
	cmd := command()
	return cmd, cmd.Start()
}

func await(ctx context.Context, cmd *exec.Cmd, ended <-chan error) error {
	stopping := false
	var limit <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case err := <-ended:
			if err != nil && !stopping {
				return fmt.Errorf("the dock's first process exited: %w", err)
			}
			return nil
		case <-done:
			done, stopping = nil, true
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("stopping the dock: %w", err)
			}
			timer := time.NewTimer(stopLimit)
			defer timer.Stop()
			limit = timer.C
		case <-limit:
			limit = nil
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("stopping the dock: %w", err)
			}
		}
	}
}

// attributes puts the child into new namespaces. Root needs no user namespace; other users get one in which they are
// root and no other user exists.
func attributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	a := Namespaces(Rootless())
	a.Pdeathsig = syscall.SIGKILL
	return a
}

// Namespaces returns the namespaces of a dock as attributes of a process.
func Namespaces(rootless bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
		Setsid: true,
	}
	if rootless {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return a
}

func explain(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("making the dock's namespaces: %w: `capstan-dock check` says which setting forbids it", err)
	}
	return fmt.Errorf("making the dock's namespaces: %w", err)
}
