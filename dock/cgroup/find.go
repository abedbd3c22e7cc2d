// Package cgroup creates control groups for the hosts of a dock if this process is allowed to: as root, or as an
// ordinary user in a delegated tree.
//
// Each host has control groups at two levels. The dock owns the outer level, which has the host's limits; the host can
// neither see nor write files there. The host owns the inner level, where it creates the groups of its pods:
//
//	capstan-ID/HOST.1           limits of the host
//	capstan-ID/HOST.1/all       the host's own, which it sees as /opt/capstan/cgroup/CONTROLLER
//	capstan-ID/HOST.1/all/init  where its processes start
//
// Version 1 has one such tree for each controller. Version 2 has one tree for all controllers; in this tree, the host
// itself creates the innermost group ([Enter]).
package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Unified is the name of version 2's single tree. It is used in place of a controller's name.
const Unified = "unified"

// controllers are the controllers that limit hosts and pods.
var controllers = []string{"cpu", "memory", "pids"}

// Place describes where this process is in the machine's control groups.
type Place struct {
	// Own maps each controller, or only [Unified], to the directory of this process's group.
	Own map[string]string
	// Top is the top of the tree of version 2.
	Top string
}

// Find determines a process's place from its files mountinfo and cgroup in /proc. If the machine can't limit cpu,
// memory and pids, the error says what is missing.
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

// ownGroups parses the lines "NUMBER:CONTROLLERS:PATH" of /proc/PID/cgroup. The line of version 2 names no controllers.
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

// below returns the directory in which a mount shows a group. A container may have mounted only a part of the tree;
// then the group's path either begins with that part or omits it.
func below(m *mountinfo.Info, group string) string {
	if rest, is := strings.CutPrefix(group, m.Root); is && m.Root != "/" {
		group = rest
	}
	if strings.HasPrefix(group, "/..") {
		group = "/" // the mount does not contain this process's group
	}
	return filepath.Join(m.Mountpoint, group)
}
