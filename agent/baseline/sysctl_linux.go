package baseline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctlDir is where the kernel shows its settings.
const sysctlDir = "/proc/sys"

// sysctlLimit bounds the value of one setting, in bytes.
const sysctlLimit = 4 << 10

// measured are settings that the kernel counts or makes itself, and what can't be read without effect.
var measured = []string{
	"dev/cdrom", "dev/hpet", "fs/aio-nr", "fs/binfmt_misc", "fs/dentry-state", "fs/file-nr", "fs/inode-nr",
	"fs/inode-state", "fs/quota", "kernel/acct", "kernel/cap_last_cap", "kernel/hostname", "kernel/domainname",
	"kernel/keys", "kernel/ns_last_pid", "kernel/pty/nr", "kernel/random", "kernel/sched_domain", "kernel/spl",
	"kernel/tainted", "kernel/threads-max", "net/netfilter/nf_conntrack_count", "net/ipv4/route/flush",
	"net/ipv6/route/flush", "net/ipv4/tcp_fastopen_key", "vm/compact_memory", "vm/drop_caches", "vm/stat_refresh",
}

// sysctls returns the settings of the kernel that can be read, by name. A local host has settings of its own for the
// network only.
func (h Host) sysctls() (map[string]string, error) {
	root := sysctlDir
	if h.Shared {
		root = filepath.Join(sysctlDir, "net")
	}
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, sysctlDir+"/")
		switch {
		case err != nil:
			return nil // gone meanwhile, or nobody's business
		case under(name, measured) && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || under(name, measured):
			return nil
		}
		if value, ok := readSysctl(path); ok {
			all[name] = value
		}
		return nil
	})
	return all, err
}

// readSysctl reads a setting; false if it can't be read, or is none that this host can write: a container has those of
// its machine.
func readSysctl(path string) (string, bool) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm()&0o200 == 0 || unix.Access(path, unix.W_OK) != nil {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, sysctlLimit+1))
	return strings.TrimRight(string(data), "\n"), err == nil && len(data) <= sysctlLimit
}

// settings names the settings that are not what they were. Those of interfaces and modules that came since are not: the
// interface or module is named itself.
func (s state) settings(before state) []string {
	var found []string
	for name, value := range s.Sysctls {
		if was, known := before.Sysctls[name]; known && was != value {
			found = append(found, fmt.Sprintf("sysctl %s, which was %.60q and is %.60q", name, was, value))
		}
	}
	sort.Strings(found)
	return found
}

// RestoreSysctls sets the settings of the kernel to what they were when the baseline at path was taken: kubelet,
// kube-proxy and network plug-ins change some on every node. What can't be set is found by the next comparison.
func (h Host) RestoreSysctls(path string) error {
	before, err := h.stateAt(path)
	if err != nil {
		return fmt.Errorf("reading the settings of the kernel in the baseline: %w", err)
	}
	now, err := h.sysctls()
	if err != nil {
		return err
	}
	var errs []error
	// Some settings change others: net/ipv4/ip_forward those of each interface. The second round puts these back.
	for range 2 {
		errs = nil
		for name, was := range before.Sysctls {
			if value, known := now[name]; known && value != was {
				errs = append(errs, os.WriteFile(filepath.Join(sysctlDir, name), []byte(was), 0))
			}
		}
		if now, err = h.sysctls(); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// stateAt reads the state of the running system from the baseline at path.
func (h Host) stateAt(path string) (before state, err error) {
	f, err := os.Open(path)
	if err != nil {
		return before, err
	}
	defer f.Close()
	_, before, err = open(f)
	return before, err
}
