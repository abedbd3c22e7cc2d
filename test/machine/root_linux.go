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

// Environment variables of whoever runs the tests.
const (
	// CacheVariable names the one with the directory where roots are kept.
	CacheVariable = "CAPSTAN_MACHINES"
	// SuiteVariable names the one with the release of Debian that machines have.
	SuiteVariable = "CAPSTAN_TEST_SUITE"
)

// defaultSuite is the release of Debian that machines have if nobody says another one.
const defaultSuite = "bookworm"

// Suite returns the release of Debian that machines have.
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
	packages []string // besides the essential ones
	masked   []string // units that never start
	hooks    []string // options of mmdebstrap
}

// packages are installed in all machines: what an administrator's computer has, and what Kubernetes asks for.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "login", "passwd", "procps", "kmod", "mount", "less",
	"iproute2", "iputils-ping", "nftables", "iptables", "conntrack", "ethtool", "socat", "curl", "ca-certificates",
}

// containers is the root of machines that share the kernel of this computer. The masked units would touch what is not
// the machine's own.
func containers(suite string) recipe {
	return recipe{suite: suite, packages: packages, masked: []string{
		"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
		"systemd-udev-trigger.service", "systemd-modules-load.service", "systemd-timesyncd.service",
		"systemd-networkd.service",
	}}
}

// virtuals is the root of machines with a kernel of their own. The first file system has no more modules than it takes
// to find the disk: each one costs time where every instruction is emulated.
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

// Root returns the root that machines begin with, which Main has made.
func Root() (string, error) {
	if root := os.Getenv(rootVariable); root != "" {
		return root, nil
	}
	return "", errors.New("there is no root of machines: call machine.Main from TestMain, and set " + Wanted)
}

// VirtualRoot returns the root that virtual machines begin with, which Main has made.
func VirtualRoot() (string, error) {
	if root := os.Getenv(virtualRootVariable); root != "" {
		return root, nil
	}
	return "", errors.New("there is no root of virtual machines: call machine.Main from TestMain, and set " +
		WantedVirtual)
}

// make makes the root, or finds it: it is kept, by all that it is made of. It takes a minute or two, and a mirror of
// Debian, the first time.
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
