package cgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	recordFile = "cgroups.json" // in the dock's directory: what to remove after the dock was killed
	allGroup   = "all"
	initGroup  = "init"
)

// Main is the name of the group for a dock's own processes. It is below a delegated group of version 2.
const Main = "capstan-main"

// Limits of a host. The same memory limit applies to all hosts of the dock together.
const (
	maxProcesses = 16384
	memoryTenths = 9
)

// removeLimit bounds how long a group may stay busy after its last process ended.
const removeLimit = 5 * time.Second

// Dock is the control group of all hosts of a dock.
type Dock struct {
	groups map[string]string // directory by controller; with version 2, by Unified
	memory uint64
	starts atomic.Int64
}

// Open creates the dock's group inside this process's group. dir is the dock's directory; Open removes what an earlier
// dock left. The error explains why hosts can't have limits here.
func Open(dir string) (*Dock, error) {
	record := filepath.Join(dir, recordFile)
	if err := removeRecorded(record); err != nil {
		return nil, err
	}
	place, err := here()
	if err != nil {
		return nil, err
	}
	name := "capstan-" + ID(dir)
	d := &Dock{groups: map[string]string{}}
	if d.memory, err = hostMemory(); err != nil {
		return nil, err
	}
	if place.Top != "" {
		parent, err := unifiedParent(place, name)
		if err != nil {
			return nil, err
		}
		place.Own[Unified] = parent
	}
	for controller, parent := range place.Own {
		d.groups[controller] = filepath.Join(parent, name)
	}
	data, err := json.Marshal(d.groups)
	if err == nil {
		err = os.WriteFile(record, data, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("recording the control groups of the dock: %w", err)
	}
	if err := d.make(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// ID returns a short name for the dock in a directory. It differs from those of other docks of this machine.
func ID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:6])
}

func (d *Dock) make() error {
	for controller, dir := range d.groups {
		if err := makeGroup(dir); err != nil {
			return err
		}
		if err := d.limit(controller, dir, 0); err != nil {
			return err
		}
		if controller == Unified {
			if err := enable(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit sets the limits of one group. If processes is 0, the number of processes has no limit.
func (d *Dock) limit(controller, dir string, processes int) error {
	for _, l := range limits(controller, d.memory, processes) {
		if err := write(dir, l.file, l.value); err != nil {
			return err
		}
	}
	return nil
}

type setting struct{ file, value string }

// limits returns the settings to write into the files of a group.
func limits(controller string, memory uint64, processes int) []setting {
	var all []setting
	bytes := strconv.FormatUint(memory, 10)
	switch controller {
	case "memory":
		all = append(all, setting{"memory.limit_in_bytes", bytes})
	case Unified:
		all = append(all, setting{"memory.max", bytes})
	}
	if processes > 0 && (controller == "pids" || controller == Unified) {
		all = append(all, setting{"pids.max", strconv.Itoa(processes)})
	}
	return all
}

// Names returns the limited controllers, joined by dots.
func (d *Dock) Names() string { return strings.Join(controllers, ".") }

// Host holds the control groups of a host.
type Host struct{ groups map[string]string }

// Host creates the groups for one start of a host. owner is the user id that the host's root has in this process's user
// namespace.
func (d *Dock) Host(name string, owner int) (*Host, error) {
	h := &Host{groups: map[string]string{}}
	start := fmt.Sprintf("%s.%d", name, d.starts.Add(1))
	for controller, dir := range d.groups {
		h.groups[controller] = filepath.Join(dir, start)
	}
	for controller, dir := range h.groups {
		if err := d.makeHost(controller, dir, owner); err != nil {
			return nil, errors.Join(err, h.Remove())
		}
	}
	return h, nil
}

func (d *Dock) makeHost(controller, dir string, owner int) error {
	all := filepath.Join(dir, allGroup)
	made := []string{dir, all}
	if controller != Unified {
		made = append(made, filepath.Join(all, initGroup))
	}
	for _, group := range made {
		if err := makeGroup(group); err != nil {
			return err
		}
	}
	if err := d.limit(controller, dir, maxProcesses); err != nil {
		return err
	}
	// The host may create groups and, with version 2, move processes between them. All other files still belong to the
	// dock.
	owned := []string{"."}
	if controller == Unified {
		if err := enable(dir); err != nil {
			return err
		}
		owned = append(owned, "cgroup.procs", "cgroup.threads", "cgroup.subtree_control")
	}
	for _, file := range owned {
		if err := os.Chown(filepath.Join(all, file), owner, owner); err != nil {
			return fmt.Errorf("giving a control group to a host: %w", err)
		}
	}
	return nil
}

// Shared returns the directories that the host sees, by their names on the host.
func (h *Host) Shared() map[string]string {
	shared := map[string]string{}
	for controller, dir := range h.groups {
		shared[controller] = filepath.Join(dir, allGroup)
	}
	return shared
}

// Start lets a process that is started with attr start in the host's groups. With version 1, this thread itself enters
// the groups: the caller must have locked the thread and must start nothing else from it. With version 2, the process
// calls [Enter], and the caller closes the returned file after the start.
func (h *Host) Start(attr *syscall.SysProcAttr) (*os.File, error) {
	for controller, dir := range h.groups {
		group := filepath.Join(dir, allGroup)
		if controller != Unified {
			if err := write(filepath.Join(group, initGroup), "tasks", "0"); err != nil { // 0 means the writer
				return nil, err
			}
			continue
		}
		fd, err := unix.Open(group, unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_RDONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("opening a control group: %w", &os.PathError{Op: "open", Path: group, Err: err})
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return os.NewFile(uintptr(fd), group), nil
	}
	return nil, nil
}

// Enter prepares this process, which Start has started in its host's group of version 2. Enter makes the process treat
// this group as the top of the tree. Then it moves the process to a group for the host's own processes. The caller has
// locked the thread. group is the host's group, as the host sees it.
//
// The order matters. systemd mounts version 2 so that a process can move others only below the top of its own tree. If
// the tree began at the group for the host's own processes, none could be moved to a pod's group. And a group that has
// processes itself can't contain groups with limits.
func Enter(group *os.Root) error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a namespace of control groups: %w", err)
	}
	if err := group.Mkdir(initGroup, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a control group: %w", err)
	}
	for _, s := range []setting{
		{initGroup + "/cgroup.procs", "0"}, // 0 means the writer
		{"cgroup.subtree_control", "+" + strings.Join(controllers, " +")},
	} {
		f, err := group.OpenFile(s.file, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("setting a control group: %w", err)
		}
		_, err = f.WriteString(s.value)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("setting a control group to %q: %w", s.value, err)
		}
	}
	return nil
}

// Remove removes the groups of a host that has stopped.
func (h *Host) Remove() error { return removeAll(h.groups) }

// Close removes the groups of the dock. All hosts must have stopped.
func (d *Dock) Close() error { return removeAll(d.groups) }

// unifiedParent returns where to create a group of version 2: at the top of the tree if this process may do that, as
// root usually may. Otherwise the place is this process's own group, if it was delegated and [MakeRoom] was called.
func unifiedParent(place Place, name string) (string, error) {
	own := place.Own[Unified]
	if filepath.Base(own) == Main {
		own = filepath.Dir(own)
	}
	var errs []error
	for _, parent := range []string{place.Top, own} {
		err := tryUnified(parent, name)
		if err == nil {
			return parent, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no control groups are delegated to this user: %w", errors.Join(errs...))
}

// MakeRoom moves this process from its own group of version 2 to one below it, [Main]. Groups with limits can then be
// created next to Main. The group must have been delegated, with no other process in it.
func MakeRoom() error {
	place, err := here()
	if err != nil {
		return err
	}
	dir, is := place.Own[Unified]
	if !is {
		return errors.New("control groups are of version 1, which can't be delegated")
	}
	main := filepath.Join(dir, Main)
	if err := makeGroup(main); err != nil {
		return err
	}
	return write(main, "cgroup.procs", "0") // 0 means the writer
}

// IsUnified reports whether limits on this machine use version 2.
func IsUnified() bool {
	place, err := here()
	return err == nil && place.Top != ""
}

// here returns the place of this process.
func here() (Place, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Place{}, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Place{}, err
	}
	return Find(string(mounts), string(groups))
}

// tryUnified creates a group of version 2 with all controllers. If it can't, it leaves nothing behind.
func tryUnified(parent, name string) error {
	dir := filepath.Join(parent, name)
	if err := makeGroup(dir); err != nil {
		return err
	}
	if hasAll(dir) {
		return nil
	}
	err := enable(parent)
	if err == nil && !hasAll(dir) {
		err = fmt.Errorf("%s lacks some of the controllers cpu, memory and pids", parent)
	}
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	return nil
}

func hasAll(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return false
	}
	have := " " + strings.TrimSpace(string(data)) + " "
	for _, controller := range controllers {
		if !strings.Contains(have, " "+controller+" ") {
			return false
		}
	}
	return true
}

// enable allows limits for the groups below a group of version 2.
func enable(dir string) error {
	return write(dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +"))
}

func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a control group: %w", err)
	}
	return nil
}

func write(dir, file, value string) error {
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("setting a control group: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("setting a control group to %q: %w", value, err)
	}
	return nil
}

// hostMemory returns how much memory hosts may use. That is less than the machine has, so that the machine stays
// responsive.
func hostMemory() (uint64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("reading the amount of memory: %w", err)
	}
	return uint64(info.Totalram) * uint64(info.Unit) / 10 * memoryTenths, nil
}

func removeRecorded(record string) error {
	data, err := os.ReadFile(record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var groups map[string]string
	if err == nil {
		err = json.Unmarshal(data, &groups)
	}
	if err != nil {
		return fmt.Errorf("reading the record of control groups: %w: remove %s", err, record)
	}
	for _, dir := range groups {
		if !strings.HasPrefix(filepath.Base(dir), "capstan-") {
			return fmt.Errorf("the record %s names %s, which is not a dock's control group: remove the record", record,
				dir)
		}
	}
	return removeAll(groups)
}

func removeAll(groups map[string]string) error {
	var errs []error
	for _, dir := range groups {
		errs = append(errs, remove(dir))
	}
	return errors.Join(errs...)
}

// remove removes a group and those below it. Its processes must have ended, or be about to end.
func remove(dir string) error {
	deadline := time.Now().Add(removeLimit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := removeTree(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a control group: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing a control group: %w", &os.PathError{Op: "rmdir", Path: dir, Err: err})
	}
	return nil
}
