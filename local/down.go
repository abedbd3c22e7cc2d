package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/rootfs"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// DownOptions are the options of Down.
type DownOptions struct {
	// Home is the home directory of the plane. Required.
	Home string
	// Delete also removes the home directory with everything in it, including the data of all clusters.
	Delete bool
	// Timeout bounds the whole operation; default 2 minutes.
	Timeout time.Duration
	// Progress receives the steps. May be nil.
	Progress Progress
}

const defaultDownTimeout = 2 * time.Minute

// Down stops the management plane of a home directory and all its local hosts, and returns when they have stopped; the
// last process of the dock may need another moment to exit. It is not an error if nothing is running. If the home
// directory does not exist, the error is a [*NoPlaneError].
func Down(ctx context.Context, o DownOptions) error {
	dir, err := homeDir(o.Home)
	if err != nil {
		return err
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultDownTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if _, err := os.Stat(string(dir)); errors.Is(err, os.ErrNotExist) {
		return &NoPlaneError{Home: string(dir)}
	}
	unlock, err := lockHome(ctx, dir, o.Progress)
	if err != nil {
		return err
	}
	defer unlock()
	if err := o.Progress.step("plane and hosts stopped", func(func(string)) error {
		return stopDock(ctx, dir)
	}); err != nil {
		return err
	}
	if !o.Delete {
		return nil
	}
	return o.Progress.step("removed "+string(dir), func(func(string)) error { return removeHome(dir) })
}

// stopDock stops the plane first, so that the plane does not see its hosts vanish, then everything else.
func stopDock(ctx context.Context, dir home.Dir) error {
	docked := dock.Connect(string(dir))
	defer docked.Close()
	err := docked.StopUnit(ctx, planeUnit)
	if err == nil {
		err = docked.Shutdown(ctx)
	}
	if errors.Is(err, dock.ErrNotRunning) {
		return nil
	}
	return err
}

// ours lists the names that Capstan uses in a home directory; oursHalf lists the prefixes of temporary files that a
// killed process leaves there.
var (
	ours = []string{
		"kubeconfig", "lock", "dock", "plane", "clusters", "backups", "bundles", "images", "registries.yaml", choicesFile,
	}
	oursHalf = []string{".kubeconfig-", "." + choicesFile + "-", ".new-"}
)

// removeHome removes the home directory. It refuses a directory that is not Capstan's, so that a wrong path does no
// harm.
func removeHome(dir home.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	for _, e := range entries {
		if !isOurs(e.Name()) {
			return hint.Errorf("remove it by hand if you need nothing in it",
				"%s holds %q, which is not Capstan's: nothing was removed", dir, e.Name())
		}
	}
	return rootfs.Remove(string(dir)) // hosts have directories that even their owner may not access
}

// isOurs reports whether Capstan uses this name in a home directory.
func isOurs(name string) bool {
	for _, known := range ours {
		if name == known {
			return true
		}
	}
	for _, prefix := range oursHalf {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
