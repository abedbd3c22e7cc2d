package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

// rebootLimit bounds a reboot.
const rebootLimit = time.Minute

// BootstrapLog opens the output of a local host's bootstrap. The host can replace the file with anything, so
// BootstrapLog accepts only a regular file below the host's root directory. The caller closes the file, and must
// sanitize the text before printing it to a terminal.
func BootstrapLog(homePath, host string) (io.ReadCloser, error) {
	dir, err := homeDir(homePath)
	if err != nil {
		return nil, err
	}
	if host != filepath.Base(host) || host == ".." || host == "." {
		return nil, hint.Errorf("see: capstan host list", "%q is not the name of a host", host)
	}
	file, err := openBelow(dir.HostRoot(host), filepath.Join("var", "log", "capstan", "bootstrap.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, hint.Errorf("list the hosts and their states: capstan host list",
			"host %s has no bootstrap output: it is not a local host, or has not run bootstrap data yet", host)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the output of host %s: %w", host, err)
	}
	return file, nil
}

// openBelow opens a regular file below root. It follows no links out of root and does not block on a pipe.
func openBelow(root, path string) (*os.File, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	file, err := r.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// RebootHost shuts a local host down cleanly and powers it on again with the same disk. If no dock is running, the
// error wraps [ErrNotRunning].
func RebootHost(ctx context.Context, homePath, host string) error {
	dir, err := homeDir(homePath)
	if err != nil {
		return err
	}
	docked := dock.Connect(string(dir))
	defer docked.Close()
	ctx, cancel := context.WithTimeout(ctx, rebootLimit)
	defer cancel()
	switch err := docked.RebootHost(ctx, host); {
	case errors.Is(err, dock.ErrNotRunning):
		return hint.Errorf("run: capstan up", "rebooting host %s: %w", host, &reworded{"no local hosts run", err})
	case dock.CodeOf(err) == dock.CodeNotFound:
		return hint.Errorf("see: capstan host list (hosts that are Off have nothing to reboot)",
			"%w", &reworded{fmt.Sprintf("no local host %q is running", host), err})
	case err != nil:
		return fmt.Errorf("rebooting host %s: %w", host, err)
	}
	return nil
}

// RunningHosts returns the names of the local hosts that are powered on.
func RunningHosts(ctx context.Context, homePath string) ([]string, error) {
	dir, err := homeDir(homePath)
	if err != nil {
		return nil, err
	}
	docked := dock.Connect(string(dir))
	defer docked.Close()
	hosts, err := docked.ListHosts(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, h := range hosts {
		if h.State == dock.HostRunning {
			names = append(names, h.Name)
		}
	}
	return names, nil
}
