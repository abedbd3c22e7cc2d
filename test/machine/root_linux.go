package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Environment variables that a person who runs the tests may set.
const (
	// CacheVariable names the variable with the directory in which roots are kept.
	CacheVariable = "CAPSTAN_MACHINES"
	// SuiteVariable names the variable with the Debian release of machines.
	SuiteVariable = "CAPSTAN_TEST_SUITE"
)

// defaultSuite is the default Debian release of machines.
const defaultSuite = "bookworm"

// Suite returns the Debian release of machines.
func Suite() string {
	if suite := os.Getenv(SuiteVariable); suite != "" {
		return suite
	}
	return defaultSuite
}

// recipe says how a root is made.
type recipe struct {
	kind     string   // a part of its directory's name
	suite    string   // the release of Debian
	packages []string // in addition to the essential ones
	masked   []string // units that never start
	hooks    []string // options of mmdebstrap
}

// packages are installed on all machines: those that an administrator's computer has, and those that Kubernetes
// requires.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "login", "passwd", "procps", "kmod", "mount", "less",
	"iproute2", "iputils-ping", "nftables", "iptables", "conntrack", "ethtool", "socat", "curl", "ca-certificates",
}

// containers returns the recipe for machines that share the kernel of this computer. The masked units would change
// things outside of the machine.
func containers(suite string) recipe {
	return recipe{suite: suite, packages: packages, masked: []string{
		"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
		"systemd-udev-trigger.service", "systemd-modules-load.service", "systemd-timesyncd.service",
		"systemd-networkd.service",
	}}
}

// virtuals returns the recipe for machines with their own kernel. The initial file system has only the modules that it
// needs to find the disk, because each module costs time where every instruction is emulated.
func virtuals(suite string) recipe {
	return recipe{
		kind: "vm-", suite: suite,
		packages: slices.Concat(packages, []string{"linux-image-cloud-amd64", "openssh-server", "libpam-systemd", "uidmap"}),
		hooks: []string{
			`--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"`,
			`--essential-hook=echo MODULES=list > "$1/etc/initramfs-tools/conf.d/machine"`,
			`--customize-hook=printf '%s\n' virtio_pci virtio_blk ext4 > "$1/etc/initramfs-tools/modules"`,
			`--customize-hook=chroot "$1" update-initramfs -u`,
		},
	}
}

// Root returns the root that machines start from, which Main has made.
func Root() (string, error) {
	if root := os.Getenv(rootVariable); root != "" {
		return root, nil
	}
	return "", errors.New("there is no root of machines: call machine.Main from TestMain, and set " + Wanted)
}

// VirtualRoot returns the root that virtual machines start from, which Main has made.
func VirtualRoot() (string, error) {
	if root := os.Getenv(virtualRootVariable); root != "" {
		return root, nil
	}
	return "", errors.New("there is no root of virtual machines: call machine.Main from TestMain, and set " +
		WantedVirtual)
}

// make makes the root, or finds an earlier one that was made from exactly the same input. The first time, it needs a
// Debian mirror and takes a minute or two.
func (r recipe) make(ctx context.Context) (string, error) {
	cache := os.Getenv(CacheVariable)
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("where to keep roots of machines: %w; set %s", err, CacheVariable)
		}
		cache = filepath.Join(dir, "capstan", "machines")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{r.suite}, r.packages, r.masked, r.hooks), " ")))
	root := filepath.Join(cache, r.kind+r.suite+"-"+hex.EncodeToString(sum[:6]))
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(root); err == nil || !errors.Is(err, os.ErrNotExist) {
		return root, err
	}
	next := root + ".next"
	if err := os.RemoveAll(next); err != nil {
		return "", err
	}
	args := slices.Concat([]string{"--quiet", "--mode=root", "--variant=minbase",
		"--include=" + strings.Join(r.packages, ",")}, r.hooks, []string{r.suite, next})
	if out, err := exec.CommandContext(ctx, "mmdebstrap", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("making a Debian root: mmdebstrap: %w\n%s", err, out)
	}
	for _, unit := range r.masked {
		if err := os.Symlink("/dev/null", filepath.Join(next, "etc/systemd/system", unit)); err != nil {
			return "", err
		}
	}
	return root, os.Rename(next, root)
}
