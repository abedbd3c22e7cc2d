//go:build linux

// Package socket creates and connects to the unix sockets of the image store. It also works if the home directory's
// path is too long for a socket.
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

// The sockets in the store's directory. Only the user who runs the dock can connect to them.
const (
	// Owner is the socket for the commands of this user.
	Owner = "images.sock"
	// Hosts is the socket for the dock, which connects on behalf of its hosts: a connection begins with a line "NAME ID".
	Hosts = "hosts.sock"
)

// Listen creates a socket in a directory and replaces an existing one. It binds through /proc/self/fd because the path
// of a unix socket is limited to 107 bytes.
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
	l.SetUnlinkOnClose(false) // the path through /proc/self/fd is invalid when the listener closes
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
