//go:build linux

// Package socket makes and reaches the unix sockets of the image store, also below home directories with long names.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The sockets in the store's directory; only the dock's user may connect.
const (
	// Owner is for the machine's user.
	Owner = "images.sock"
	// Hosts is for the dock, which speaks for its hosts: a connection begins with a line "NAME ID".
	Hosts = "hosts.sock"
)

// Listen makes a socket in a directory, in place of one that is there. The path of a unix socket may have 107 bytes
// only, so it goes through /proc/self/fd.
func Listen(dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("making the socket %s: %w", name, err)
	}
	defer d.Close()
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of a previous process: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: through(d, name)})
	if err != nil {
		return nil, fmt.Errorf("making the socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the name it knows is gone by then
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("making the socket %s: %w", path, err)
	}
	return l, nil
}

// Dial connects to a socket in a directory.
func Dial(ctx context.Context, dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return dialer.DialContext(ctx, "unix", through(d, name))
}

func through(d *os.File, name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name)
}
