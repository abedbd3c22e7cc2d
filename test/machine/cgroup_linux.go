package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// hierarchy is one of the computer's cgroup file systems.
type hierarchy struct {
	path    string // where it is mounted
	kind    string // cgroup or cgroup2
	options string // to mount it again: controllers, or the hierarchy's name
}

// hierarchies lists the computer's cgroup file systems.
func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(data)), nil
}

// parseHierarchies reads the text of /proc/self/mountinfo.
func parseHierarchies(text string) []hierarchy {
	var list []hierarchy
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(line, " - ")
		place, source := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 6 || len(source) < 3 || !strings.HasPrefix(place[4], "/sys/fs/cgroup") {
			continue
		}
		h := hierarchy{path: place[4], kind: source[0]}
		switch h.kind {
		case "cgroup2":
		case "cgroup":
			var options []string
			for option := range strings.SplitSeq(source[2], ",") {
				if strings.HasPrefix(option, "name=") {
					options = append(options, "none")
				}
				if option != "rw" && option != "ro" && option != "xattr" {
					options = append(options, option)
				}
			}
			h.options = strings.Join(options, ",")
		default:
			continue
		}
		list = append(list, h)
	}
	return list
}

// cgroup is a group of processes in all hierarchies.
type cgroup struct {
	name string
	all  []hierarchy
}

// newCgroup creates a group at the root of each hierarchy, as this process sees it.
func newCgroup(name string) (*cgroup, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no cgroup file system is mounted below /sys/fs/cgroup")
	}
	sweep(all)
	c := &cgroup{name: name, all: all}
	for _, h := range all {
		if err := c.createIn(h); err != nil {
			return nil, errors.Join(fmt.Errorf("making a cgroup in %s: %w", h.path, err), c.remove())
		}
	}
	return c, nil
}

// sweep removes the empty groups that killed tests have left. Their names contain the pid of the test.
func sweep(all []hierarchy) {
	for _, h := range all {
		left, _ := filepath.Glob(filepath.Join(h.path, "machine-*-*"))
		for _, dir := range left {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "machine-"), "-")
			if _, err := os.Stat(filepath.Join("/proc", pid)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			for _, group := range groups(dir) {
				_ = os.Remove(group) // A group that has processes stays.
			}
		}
	}
}

// groups returns a group and its descendants, innermost first.
func groups(dir string) (list []string) {
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			list = append([]string{path}, list...)
		}
		return nil
	})
	return list
}

// createIn creates the group in one hierarchy. In version 1, a new cpuset group has neither processors nor memory
// nodes, and accepts no process until it has both.
func (c *cgroup) createIn(h hierarchy) error {
	dir := filepath.Join(h.path, c.name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(h.path, file))
		if h.kind != "cgroup" || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add moves a process into the group.
func (c *cgroup) add(pid int) error {
	for _, h := range c.all {
		path := filepath.Join(h.path, c.name, "cgroup.procs")
		if err := os.WriteFile(path, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("moving a process into a cgroup: %w", err)
		}
	}
	return nil
}

// remove kills the remaining processes, and removes the group and its descendants.
func (c *cgroup) remove() error {
	var errs []error
	for _, h := range c.all {
		errs = append(errs, removeGroups(filepath.Join(h.path, c.name)))
	}
	return errors.Join(errs...)
}

// removeGroups removes a group and its descendants. A process that has just died stays in its group for a moment.
func removeGroups(dir string) error {
	var left error
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		left = nil
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Name() == "cgroup.procs" {
				killAll(path)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, group := range groups(dir) {
			if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
				left = err
			}
		}
		if left == nil {
			return nil
		}
	}
	return left
}

// killAll kills the processes that a file lists.
func killAll(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for field := range bytes.FieldsSeq(data) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 1 && pid != os.Getpid() {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
}
