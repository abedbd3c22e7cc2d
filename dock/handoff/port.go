//go:build linux

package handoff

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Listen chooses ports from firstPort up to the first that the kernel uses for outgoing connections.
const (
	firstPort   = 20000
	defaultLast = 32767
	tries       = 200
)

// open opens the listener that a request asks for.
func open(r request) (*net.TCPListener, error) {
	if r.Address == "" {
		return listen(r.Port)
	}
	address, err := netip.ParseAddrPort(r.Address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", r.Address, err)
	}
	network := "tcp4"
	if address.Addr().Is6() {
		network = "tcp6"
	}
	l, err := net.ListenTCP(network, net.TCPAddrFromAddrPort(address))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listening on %s: %w by %s: end that process, or choose another port", address, err,
			holder(int(address.Port())))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listening on %s: %w: this machine has no such address now", address, err)
	case err != nil:
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return l, nil
}

// listen opens a listener on 127.0.0.1; port 0 chooses a free one.
func listen(port int) (*net.TCPListener, error) {
	if port != 0 {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listening on 127.0.0.1:%d: %w by %s: end that process, or remove what the dock uses the "+
				"port for", port, err, holder(port))
		}
		if err != nil {
			return nil, fmt.Errorf("listening on 127.0.0.1:%d: %w", port, err)
		}
		return l, nil
	}
	last := lastPort()
	for range tries {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{
			IP: net.IPv4(127, 0, 0, 1), Port: firstPort + rand.IntN(last-firstPort+1),
		})
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("choosing a port on 127.0.0.1: %w", err)
		}
	}
	return nil, fmt.Errorf("choosing a port on 127.0.0.1: %d tries between %d and %d found no free port", tries,
		firstPort, last)
}

func lastPort() int {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultLast
	}
	fields := strings.Fields(string(data))
	if len(fields) != 2 {
		return defaultLast
	}
	if low, err := strconv.Atoi(fields[0]); err == nil && low > firstPort+1000 {
		return low - 1
	}
	return defaultLast
}

// holder names the process that listens on a port, as far as this user can see it.
func holder(port int) string {
	inode := listenerInode(port)
	if inode == "" {
		return "another process"
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "another process"
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			name, err := os.ReadFile("/proc/" + pid + "/comm")
			if err != nil {
				continue
			}
			return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return "a process of another user"
}

// listenerInode returns the inode of the socket that listens on port, on 127.0.0.1 or on all addresses.
func listenerInode(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(data), "\n") {
			fields := strings.Fields(line)
			const listening = "0A"
			if len(fields) > 9 && fields[3] == listening && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				return fields[9]
			}
		}
	}
	return ""
}
