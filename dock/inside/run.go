//go:build linux

// Package inside is PID 1 of a dock's namespaces. It creates the dock's network, runs hosts, balancers, relays and
// units, and serves the dock's API on a unix socket.
package inside

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/handoff"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/outside"
	"github.com/capstan-dev/capstan/dock/reap"
)

// Config configures Run.
type Config struct {
	Home     string // HOME; the dock's part is HOME/dock
	BinDir   string // the directory of our binaries, which contains "bundles"
	Instance string // differs after each start
	Rootless bool
	Log      *log.Logger
}

// Run is the whole life of PID 1 in a dock. It returns after everything in the dock has stopped; an error means that
// the dock could not be created.
func Run(c Config) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(48 << 20)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Catch SIGHUP and drop it. If this process ignored SIGHUP, every unit would inherit that setting.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if os.Getpid() != 1 {
		return errors.New("this command is PID 1 of a dock; only `capstan-dock run` starts it")
	}
	unix.CloseOnExec(outside.HandoffFD)
	unix.CloseOnExec(outside.LockFD)
	os.WriteFile("/proc/self/comm", []byte("capstan-dock"), 0) // process lists would show "exe" otherwise
	machineProc, err := os.Open("/proc")
	if err != nil {
		return fmt.Errorf("opening the machine's /proc: %w", err)
	}
	listeners, err := handoff.Open(os.NewFile(outside.HandoffFD, "handoff"))
	if err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	kernel, err := network.Open()
	if err != nil {
		return err
	}
	if err := network.Apply(kernel, network.PlanDock()); err != nil {
		return err
	}
	groups, err := cgroup.Open(dock.Dir(c.Home))
	if err != nil {
		c.Log.Printf("limits of pods are not enforced: %v", err)
	} else {
		defer func() {
			if err := groups.Close(); err != nil {
				c.Log.Print(err)
			}
		}()
	}
	e, err := newEngine(c, engineParts{
		reaper: reap.New(), kernel: kernel, listeners: listeners, machineProc: machineProc, groups: groups,
	})
	if err != nil {
		return err
	}
	server, err := serve(e, filepath.Join(c.Home, "dock"))
	if err != nil {
		return err
	}
	c.Log.Print("the dock is up")
	select {
	case s := <-signals:
		c.Log.Printf("shutting down: got signal %v", s)
	case <-e.shutdownAsked:
		c.Log.Print("shutting down: a client asked for it")
	case <-listeners.Gone():
		// The outer process was killed, and this one will be in a moment.
		return errors.New("the outer process of the dock has exited")
	}
	e.shutdown()
	server.Close()
	return nil
}

// prepare isolates mounts, and gives the namespaces their own /proc and host name.
func prepare() error {
	// Mounts are slaves, not private: a disk that the machine unmounts must not stay mounted here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("isolating the dock's mounts: %w", err)
	}
	// In a container that masks parts of /proc the kernel refuses this; the machine's /proc works instead.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil &&
		!errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("mounting the dock's /proc: %w", err)
	}
	if err := unix.Sethostname([]byte("capstan-dock")); err != nil {
		return fmt.Errorf("naming the dock: %w", err)
	}
	return nil
}
