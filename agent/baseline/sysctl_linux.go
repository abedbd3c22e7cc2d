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

// sysctlDir is where the kernel exposes its settings.
const sysctlDir = "/proc/sys"

// sysctlLimit bounds the value of one setting, in bytes.
const sysctlLimit = 4 << 10

// measured are settings that the kernel itself counts or changes, and files that have an effect when read.
var measured = []string{
	"dev/cdrom", "dev/hpet", "fs/aio-nr", "fs/binfmt_misc", "fs/dentry-state", "fs/file-nr", "fs/inode-nr",
	"fs/inode-state", "fs/quota", "kernel/acct", "kernel/cap_last_cap", "kernel/hostname", "kernel/domainname",
	"kernel/keys", "kernel/ns_last_pid", "kernel/pty/nr", "kernel/random", "kernel/sched_domain", "kernel/spl",
	"kernel/tainted", "kernel/threads-max", "net/netfilter/nf_conntrack_count", "net/ipv4/route/flush",
	"net/ipv6/route/flush", "net/ipv4/tcp_fastopen_key", "vm/compact_memory", "vm/drop_caches", "vm/stat_refresh",
}

// sysctls returns the kernel settings that can be read, by name. A local host has only network settings of its own.
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
			return nil // deleted meanwhile, or irrelevant
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

// readSysctl reads a setting. It returns false if the setting can't be read, or if this host can't write it, because a
// container shares such settings with its machine.
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

// settings lists the settings that have changed. It omits settings of new interfaces and modules, because the
// comparison lists the interfaces and modules themselves.
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

// RestoreSysctls resets kernel settings to their values in the baseline at path: kubelet, kube-proxy and network
// plug-ins change some on every node. The next comparison reports what can't be reset.
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
	// Some settings change others: net/ipv4/ip_forward changes those of each interface. The second round resets these.
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
