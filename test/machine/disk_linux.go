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
	"syscall"
)

// diskScript makes a file system from the root, overlaid with the files of another directory.
const diskScript = `set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$4"
mke2fs -q -t ext4 -L root -d "$4" "$5" "$6"`

// makeDisk makes the disk of a virtual machine: the root, and the machine's own settings.
func (v *virtual) makeDisk(ctx context.Context) error {
	for _, part := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(v.path(part), 0o755); err != nil {
			return err
		}
	}
	key := v.path("key")
	keygen := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	if out, err := keygen.CombinedOutput(); err != nil {
		return fmt.Errorf("making a key for ssh: %w\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	if err := v.settings(public); err != nil {
		return err
	}
	// The mount is in the process's own namespace, and disappears with it.
	cmd := exec.CommandContext(ctx, "sh", "-c", diskScript, "sh", v.root, v.path("upper"), v.path("work"), v.path("root"),
		v.path("disk"), virtualDisk)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a file system: %w\n%s", err, out)
	}
	for _, part := range []string{"upper", "work", "root"} {
		if err := os.RemoveAll(v.path(part)); err != nil {
			return err
		}
	}
	return nil
}

// settings writes the machine's own settings.
func (v *virtual) settings(public []byte) error {
	m := v.machine
	id := sha256.Sum256([]byte(m.dir))
	var errs []error
	for _, dir := range []string{"etc", "etc/ssh", "etc/ssh/sshd_config.d", "etc/systemd", "etc/systemd/network",
		"etc/systemd/system", "etc/systemd/system/multi-user.target.wants"} {
		errs = append(errs, os.Mkdir(v.path("upper", dir), 0o755))
	}
	errs = append(errs, os.Mkdir(v.path("upper/root"), 0o700), os.Mkdir(v.path("upper/root/.ssh"), 0o700))
	for path, text := range map[string]string{
		"etc/hostname":   m.Name + "\n",
		"etc/hosts":      "127.0.0.1 localhost\n" + m.Address + " " + m.Name + "\n",
		"etc/machine-id": hex.EncodeToString(id[:16]) + "\n",
		"etc/fstab":      "/dev/vda / ext4 errors=remount-ro 0 1\n",
		// Starting a user session for each command would take longer than the command.
		"etc/ssh/sshd_config.d/machine.conf": "UsePAM no\n",
		"etc/systemd/network/lan.network": fmt.Sprintf("[Match]\nName=en*\n[Network]\nAddress=%s/%d\nGateway=%s\n",
			m.Address, m.lan.bits, m.lan.Gateway),
	} {
		errs = append(errs, os.WriteFile(v.path("upper", path), []byte(text), 0o644))
	}
	return errors.Join(append(errs,
		os.WriteFile(v.path("upper/etc/resolv.conf"), []byte("nameserver 192.0.2.253\n"), 0o644),
		os.WriteFile(v.path("upper/root/.ssh/authorized_keys"), public, 0o600),
		os.Symlink("/lib/systemd/system/systemd-networkd.service",
			v.path("upper", filepath.Join("etc/systemd/system/multi-user.target.wants", "systemd-networkd.service"))))...)
}
