// Package cgroup makes control groups for the hosts of a dock, where this process may: as root, and for an ordinary
// user in a tree that was delegated to it.
//
// Each host has two levels. The limits of the outer one belong to the dock; the host neither sees its files nor may
// write to them. The inner one belongs to the host, which makes the groups of its pods there:
//
//	capstan-ID/HOST.1           limits of the host
//	capstan-ID/HOST.1/all       the host's own, which it sees as /opt/capstan/cgroup/CONTROLLER
//	capstan-ID/HOST.1/all/init  where its processes start
//
// With version 1 there is such a tree for each controller, with version 2 one for all.
package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Unified names the one tree of version 2, in the place of a controller's name.
const Unified = "unified"

// controllers are those that hosts and pods are limited by.
var controllers = []string{"cpu", "memory", "pids"}

// Place is where this process is in the machine's control groups.
type Place struct {
	// Own has the directory of this process's group by controller, or by [Unified] alone.
	Own map[string]string
	// Top is the top of the tree of version 2.
	Top string
}

// Find reads where a process is from its files mountinfo and cgroup in /proc. It returns an error that says what is
// missing if the machine can't limit cpu, memory and pids.
func Find(mounts, groups string) (Place, error) {
	all, err := mountinfo.GetMountsFromReader(strings.NewReader(mounts), nil)
	if err != nil {
		return Place{}, fmt.Errorf("looking for mounts of control groups: %w", err)
	}
	own := ownGroups(groups)
	place := Place{Own: map[string]string{}}
	for _, controller := range controllers {
		group, is := own[controller]
		if !is {
			continue
		}
		for _, m := range all {
			if m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), controller) {
				place.Own[controller] = below(m, group)
				break
			}
		}
	}
	switch len(place.Own) {
	case len(controllers):
		return place, nil
	case 0:
	default:
		return Place{}, errors.New("only some of the controllers cpu, memory and pids are mounted as version 1")
	}
	for _, m := range all {
		if group, is := own[""]; is && m.FSType == "cgroup2" {
			return Place{Own: map[string]string{Unified: below(m, group)}, Top: m.Mountpoint}, nil
		}
	}
	return Place{}, errors.New("no control groups are mounted")
}

// ownGroups reads lines "NUMBER:CONTROLLERS:PATH" of /proc/PID/cgroup. That of version 2 has no controllers.
func ownGroups(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			own[controller] = fields[2]
		}
	}
	return own
}

// below returns the directory of a group at a mount. A container may have a part of the tree mounted only: then the
// group's path begins with that part, or doesn't show it.
func below(m *mountinfo.Info, group string) string {
	if rest, is := strings.CutPrefix(group, m.Root); is && m.Root != "/" {
		group = rest
	}
	if strings.HasPrefix(group, "/..") {
		group = "/" // the mount shows other groups than this process's
	}
	return filepath.Join(m.Mountpoint, group)
}
