package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Preflight tries everything that a machine needs, and returns why this computer can't run one, or nil. It leaves
// nothing behind.
func Preflight() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can start machines")
	}
	errs := []error{programs(map[string]string{
		"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux",
	})}
	if group, err := newCgroup(fmt.Sprintf("machine-preflight-%d", os.Getpid())); err != nil {
		errs = append(errs, fmt.Errorf("cgroups: %w", err))
	} else {
		errs = append(errs, group.remove())
	}
	return errors.Join(append(errs, namespaces(), overlay())...)
}

// PreflightVirtual does the same for a virtual machine.
func PreflightVirtual() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can plug virtual machines into a network")
	}
	_, err := os.Stat("/dev/net/tun")
	return errors.Join(programs(map[string]string{
		"mmdebstrap": "mmdebstrap", "qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs",
		"ssh": "openssh-client", "ssh-keygen": "openssh-client",
	}), err, overlay())
}

// programs returns an error with the missing programs and their packages, or nil.
func programs(packages map[string]string) error {
	var errs []error
	for program, from := range packages {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("there is no %s: apt-get install %s", program, from))
		}
	}
	return errors.Join(errs...)
}

// namespaces starts a process in namespaces like those of a machine.
func namespaces() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | unix.CLONE_NEWCGROUP}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	return nil
}

// overlay tries to mount an overlay file system in the directory that machines would use.
func overlay() error {
	dir, err := os.MkdirTemp("", "machine-preflight-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, part := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir, dir, dir)
	if err := unix.Mount("overlay", filepath.Join(dir, "root"), "overlay", 0, layers); err != nil {
		return fmt.Errorf("an overlay file system in %s: %w; set TMPDIR to a directory on a disk", dir, err)
	}
	return unix.Unmount(filepath.Join(dir, "root"), 0)
}
