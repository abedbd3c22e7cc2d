package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the processes of all pods together, and of each pod.
const (
	allProcesses = 12288
	podProcesses = 4096
)

// removeLimit is how long a removal waits for a group that is still busy, although its processes are ending.
const removeLimit = 5 * time.Second

const podsGroup = "pods"

// Tree is this host's part of the control groups. A nil Tree has no groups: its methods do nothing.
type Tree struct{ pods map[string]string } // the directory of all pods by controller

// Open prepares the host's part of the tree of control groups for pods. dir is the directory of this part. The error
// wraps [fs.ErrNotExist] if no control groups were delegated to the host.
func Open(dir string) (*Tree, error) {
	names := controllers
	if _, err := os.Stat(filepath.Join(dir, unified)); err == nil {
		names = []string{unified}
	}
	t := &Tree{pods: map[string]string{}}
	limits := Limits{Shares: 1024 * int64(runtime.NumCPU()), Processes: allProcesses}
	for _, name := range names {
		pods := filepath.Join(dir, name, podsGroup)
		if err := makeGroup(name, pods, limits, true); err != nil {
			return nil, err
		}
		t.pods[name] = pods
	}
	return t, nil
}

// Names returns what can be limited, such as "cpu.memory.pids", or "" for a nil Tree.
func (t *Tree) Names() string {
	if t == nil {
		return ""
	}
	return strings.Join(controllers, ".")
}

// MakePod creates the groups of a pod if they don't exist.
func (t *Tree) MakePod(pod string, l Limits) error {
	if t == nil {
		return nil
	}
	l.Processes = podProcesses
	for name, pods := range t.pods {
		if err := makeGroup(name, filepath.Join(pods, pod), l, true); err != nil {
			return err
		}
	}
	return nil
}

// MakeContainer creates the groups of a container below the groups of its pod, and returns their directories.
func (t *Tree) MakeContainer(pod, container string, l Limits) ([]string, error) {
	if t == nil {
		return nil, nil
	}
	var dirs []string
	for name, pods := range t.pods {
		dir := filepath.Join(pods, pod)
		// An older release of the CRI server may have made the pod without this group.
		if err := makeGroup(name, dir, Limits{}, true); err != nil {
			return nil, err
		}
		dir = filepath.Join(dir, container)
		if err := makeGroup(name, dir, l, false); err != nil {
			return nil, errors.Join(err, t.RemoveContainer(pod, container))
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// Shown is one control group of a container, as the container's programs expect to see it. Names are the names, in
// /sys/fs/cgroup, of the group's mount and of links to that mount. Version 2 has one group without a name, for
// /sys/fs/cgroup itself.
type Shown struct {
	Dir   string
	Names []string
}

// Shown returns the groups of a container as its programs expect to see them.
func (t *Tree) Shown(pod, container string) []Shown {
	if t == nil {
		return nil
	}
	if pods, is := t.pods[unified]; is {
		return []Shown{{Dir: filepath.Join(pods, pod, container)}}
	}
	var all []Shown
	for _, name := range controllers {
		dir := filepath.Join(t.pods[name], pod, container)
		names := []string{name}
		if _, err := os.Stat(filepath.Join(dir, "cpuacct.usage")); name == "cpu" && err == nil {
			names = []string{"cpu,cpuacct", "cpu", "cpuacct"} // both controllers share one hierarchy
		}
		all = append(all, Shown{dir, names})
	}
	return all
}

// SetPod changes the limits of a pod that has groups.
func (t *Tree) SetPod(pod string, l Limits) error { return t.change(pod, l) }

// SetContainer changes the limits of a running container.
func (t *Tree) SetContainer(pod, container string, l Limits) error {
	return t.change(filepath.Join(pod, container), l)
}

func (t *Tree) change(group string, l Limits) error {
	if t == nil {
		return nil
	}
	for name, pods := range t.pods {
		err := set(filepath.Join(pods, group), plan(name, l))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Killed reports whether the kernel killed a process of a container because the container exceeded its memory limit.
func (t *Tree) Killed(pod, container string) bool {
	if t == nil {
		return false
	}
	for name, file := range map[string]string{"memory": "memory.oom_control", unified: "memory.events"} {
		if pods, is := t.pods[name]; is {
			data, err := os.ReadFile(filepath.Join(pods, pod, container, file))
			return err == nil && count(string(data), "oom_kill") > 0
		}
	}
	return false
}

// RemoveContainer removes the groups of a container whose processes have ended. The groups may be gone already.
func (t *Tree) RemoveContainer(pod, container string) error {
	return t.remove(filepath.Join(pod, container))
}

// RemovePod removes the groups of a pod and of its containers, whose processes have ended. The groups may be gone
// already.
func (t *Tree) RemovePod(pod string) error { return t.remove(pod) }

// Pods returns the pods that have groups.
func (t *Tree) Pods() ([]string, error) {
	if t == nil {
		return nil, nil
	}
	seen := map[string]bool{}
	var pods []string
	for _, dir := range t.pods {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("listing the control groups of pods: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				pods = append(pods, e.Name())
			}
		}
	}
	return pods, nil
}

func (t *Tree) remove(group string) error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, pods := range t.pods {
		errs = append(errs, remove(filepath.Join(pods, group)))
	}
	return errors.Join(errs...)
}

// makeGroup creates a group with limits. forOthers says that the group will contain other groups. In version 2, such a
// group has no processes of its own.
func makeGroup(controller, dir string, l Limits, forOthers bool) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a control group: %w", err)
	}
	settings := plan(controller, l)
	if controller == unified && forOthers {
		enable := "+" + strings.Join(controllers, " +")
		settings = append(settings, setting{file: "cgroup.subtree_control", value: enable})
	}
	return set(dir, settings)
}

func set(dir string, settings []setting) error {
	for _, s := range settings {
		if err := write(filepath.Join(dir, s.file), s.value); err != nil && !s.optional {
			return fmt.Errorf("setting the limit %s to %s: %w", s.file, s.value, err)
		}
	}
	return nil
}

func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// remove removes a group and the groups below it. The processes of these groups must have ended or be about to end.
func remove(dir string) error {
	deadline := time.Now().Add(removeLimit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := removeAll(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a control group: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing a control group: %w", &os.PathError{Op: "rmdir", Path: dir, Err: err})
	}
	return nil
}
