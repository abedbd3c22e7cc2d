// Package facts collects what a host is: its system, size and address.
package facts

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// localBoot is the file with the boot ID of a local host. It is in /run, which is new at each boot of the host. The
// kernel's own boot ID belongs to the machine around the host.
const localBoot = "/run/capstan/boot-id"

// Collect returns the facts for the agent's report. server is the URL that the agent talks to; local says that the host
// is a namespace of another machine. Unknown facts stay empty, except for the boot ID and the address: without them
// Collect fails, because the host would be useless.
func Collect(server string, local bool) (v1beta2.AgentReport, error) {
	found := v1beta2.AgentReport{
		OperatingSystem: operatingSystem("/etc/os-release", "/usr/lib/os-release"),
		Kernel:          kernel(),
		Architecture:    runtime.GOARCH,
		Processors:      int32(min(runtime.NumCPU(), 1<<20)),
		MemoryMiB:       memoryMiB("/proc/meminfo"),
	}
	hardware("/", local, &found)
	var err error
	if found.BootID, err = bootID(local); err != nil {
		return found, err
	}
	found.Address, err = Address(server)
	return found, err
}

func bootID(local bool) (string, error) {
	path := "/proc/sys/kernel/random/boot_id"
	if local {
		path = localBoot
	}
	data, err := os.ReadFile(path)
	if local && errors.Is(err, fs.ErrNotExist) {
		data = []byte(rand.Text())
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
	}
	if err != nil {
		return "", fmt.Errorf("reading the boot ID: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Address returns the IP address that the host uses to reach other hosts: the address of its default route, which the
// kubelet uses too, or else the address of its route to the server.
func Address(server string) (string, error) {
	// Connecting a UDP socket sends nothing: it only makes the kernel choose a route. The addresses are from the ranges
	// for documentation.
	for _, target := range []string{"192.0.2.1:9", "[2001:db8::1]:9", hostPort(server)} {
		if conn, err := net.Dial("udp", target); err == nil {
			address := conn.LocalAddr().(*net.UDPAddr).IP
			conn.Close()
			if !address.IsLoopback() && !address.IsUnspecified() {
				return address.String(), nil
			}
		}
	}
	return "", errors.New("finding the host's address: it has no default route and no route to the management cluster")
}

func hostPort(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func operatingSystem(paths ...string) string {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return report.Cut(strings.Trim(value, `"'`), report.OperatingSystemLimit)
			}
		}
	}
	return ""
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return report.Cut(unix.ByteSliceToString(name.Release[:]), report.KernelLimit)
}

func memoryMiB(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib / 1024
		}
	}
	return 0
}
