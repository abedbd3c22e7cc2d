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
	"strings"

	"golang.org/x/sys/unix"
)

// CacheVariable names the environment variable with the directory where roots are kept.
const CacheVariable = "CAPSTAN_MACHINES"

// Suite is the release of Debian that a machine has.
const Suite = "bookworm"

// packages are installed in a machine besides the essential ones: what an administrator's computer has, the container
// runtime of the distribution, and what Kubernetes asks for.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "login", "passwd", "procps", "kmod", "mount", "less",
	"iproute2", "iputils-ping", "nftables", "iptables", "conntrack", "ethtool", "socat", "curl", "ca-certificates",
}

// masked are units that would touch what the machine shares with the computer that it runs on.
var masked = []string{
	"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udev-trigger.service",
	"systemd-modules-load.service", "systemd-timesyncd.service", "systemd-networkd.service",
}

// Root returns the root that machines begin with, which Main has made.
func Root() (string, error) {
	if root := os.Getenv(rootVariable); root != "" {
		return root, nil
	}
	return "", errors.New("there is no root of machines: call machine.Main from TestMain, and set " + Wanted)
}

// makeRoot makes the root, or finds it: it is kept, by the list of its packages. It takes a minute or two, and a mirror
// of Debian, the first time.
func makeRoot(ctx context.Context) (string, error) {
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
	sum := sha256.Sum256([]byte(Suite + " " + strings.Join(packages, " ") + " " + strings.Join(masked, " ")))
	root := filepath.Join(cache, Suite+"-"+hex.EncodeToString(sum[:6]))
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
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
		"--include="+strings.Join(packages, ","), Suite, next)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making a Debian root: mmdebstrap: %w\n%s", err, out)
	}
	for _, unit := range masked {
		if err := os.Symlink("/dev/null", filepath.Join(next, "etc/systemd/system", unit)); err != nil {
			return "", err
		}
	}
	return root, os.Rename(next, root)
}
