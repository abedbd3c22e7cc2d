package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// nodes are the devices of every container.
var nodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

// devLinks are the links in every container's /dev.
var devLinks = map[string]string{
	"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd",
	"/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
}

// terminals is the id of the group of terminals. It is the same everywhere.
const terminals = 5

// mountDev mounts a tmpfs with devices of the host on /dev: creating device files would require all ids of the machine.
func (t tree) mountDev(spec *Spec, own ids) error {
	if err := t.mount("tmpfs", "/dev", unix.MS_NOSUID|unix.MS_STRICTATIME, "mode=755,size=65536k"); err != nil {
		return err
	}
	options := "newinstance,ptmxmode=0666,mode=0620"
	if own.groups.has(terminals) { // check first: a failed attempt takes as long as a successful one
		options += ",gid=" + strconv.Itoa(terminals)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NOEXEC)
	if err := t.mount("devpts", "/dev/pts", flags, options); err != nil {
		return err
	}
	flags |= unix.MS_NODEV
	if err := t.shared(spec.Shm, "/dev/shm", "tmpfs", flags, "mode=1777,size=65536k"); err != nil {
		return err
	}
	if err := t.shared(spec.Mqueue, "/dev/mqueue", "mqueue", flags, ""); err != nil {
		return err
	}
	for path, to := range devLinks {
		if err := t.link(to, path); err != nil {
			return err
		}
	}
	devices := slices.Clone(spec.Devices)
	if spec.AllDevices {
		all, err := hostDevices()
		if err != nil {
			return err
		}
		devices = append(devices, all...)
	} else {
		for _, name := range nodes {
			devices = append(devices, Device{"/dev/" + name, "/dev/" + name})
		}
	}
	for _, d := range devices {
		if err := t.bind(d.Source, d.Target); err != nil {
			return fmt.Errorf("giving the container device %s: %w", d.Source, err)
		}
	}
	return nil
}

// shared mounts a file system that all containers of a pod share, or else a new one for this container.
func (t tree) shared(source, target, kind string, flags uintptr, data string) error {
	if source != "" {
		return t.bind(source, target)
	}
	return t.mount(kind, target, flags, data)
}

// hostDevices lists the device files of the host, except terminals and devices in directories of their own.
func hostDevices() ([]Device, error) {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return nil, fmt.Errorf("listing the host's devices: %w", err)
	}
	var devices []Device
	for _, entry := range entries {
		// Not entry.Type: a local host's devices are mounted on files, and Type would report the file.
		info, err := entry.Info()
		if err == nil && info.Mode()&os.ModeDevice != 0 && entry.Name() != "ptmx" && entry.Name() != "console" {
			path := filepath.Join("/dev", entry.Name())
			devices = append(devices, Device{path, path})
		}
	}
	return devices, nil
}

// terminalFD is the descriptor of the terminal's other end, in the process that sends the Report.
const terminalFD = 100

// openTerminal opens a terminal of the container. From then on, its other end is terminalFD.
func (t tree) openTerminal(p *Process) (slave *os.File, err error) {
	master, err := t.open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY)
	if err != nil {
		return nil, fmt.Errorf("making a terminal in the container (is its /dev/pts mounted?): %w", err)
	}
	defer unix.Close(master)
	if err := unix.Dup3(master, terminalFD, unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making a terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlocking the terminal: %w", err)
	}
	if p.Rows > 0 && p.Cols > 0 {
		size := unix.Winsize{Row: p.Rows, Col: p.Cols}
		if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
			return nil, fmt.Errorf("setting the size of the terminal: %w", err)
		}
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, fmt.Errorf("opening the terminal: %w", errno)
	}
	return os.NewFile(fd, "terminal"), nil
}
