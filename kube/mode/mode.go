// Package mode describes the containers of a host: hollow or from images, and which ids and limits they can have. The
// CRI server reports the mode in its verbose status, and the kubelet labels its Node with it.
package mode

import (
	"os"
	"strconv"
	"strings"
)

// RuntimeName is the name of our runtime in the CRI.
const RuntimeName = "capstan"

// Labels of Nodes.
const (
	// HollowLabel is "true" on a Node whose pods, except components, are hollow. Other Nodes lack it.
	HollowLabel = "capstan.dev/hollow"
	// IDsLabel says which ids containers can have: IDsAll or IDsOne. Hollow Nodes lack it.
	IDsLabel = "capstan.dev/ids"
	// LimitsLabel lists the enforced limits, such as "cpu.memory.pids", or is LimitsNone. Hollow Nodes lack it.
	LimitsLabel = "capstan.dev/limits"
)

// Values of the labels.
const (
	IDsAll     = "all" // at least 65,536
	IDsOne     = "one"
	LimitsNone = "none"
)

// Mode describes the containers of a host.
type Mode struct {
	Hollow bool
	IDs    string
	Limits string
}

// Keys in a CRI status.
const (
	infoHollow = "capstan.hollow"
	infoIDs    = "capstan.ids"
	infoLimits = "capstan.limits"
)

// Info returns the mode as part of the CRI's verbose status: each value is JSON.
func (m Mode) Info() map[string]string {
	return map[string]string{
		infoHollow: strconv.FormatBool(m.Hollow),
		infoIDs:    strconv.Quote(m.IDs),
		infoLimits: strconv.Quote(m.Limits),
	}
}

// Parse returns the mode in a CRI status; runtime is the runtime's name. A server of ours that does not report a mode
// is an older one, whose containers are hollow. Containers of other runtimes are not hollow, and their ids and limits
// are unknown.
func Parse(runtime string, info map[string]string) Mode {
	said, ok := info[infoHollow]
	if !ok {
		return Mode{Hollow: runtime == RuntimeName}
	}
	return Mode{Hollow: said == "true", IDs: strings.Trim(info[infoIDs], `"`), Limits: strings.Trim(info[infoLimits], `"`)}
}

// Labels returns the labels of the Node.
func (m Mode) Labels() map[string]string {
	if m.Hollow {
		return map[string]string{HollowLabel: "true"}
	}
	labels := map[string]string{}
	for name, value := range map[string]string{IDsLabel: m.IDs, LimitsLabel: m.Limits} {
		if value != "" {
			labels[name] = value
		}
	}
	return labels
}

// manyIDs is how many ids containers of other runtimes have.
const manyIDs = 65536

// IDsHere reports which ids this process's user namespace has: IDsAll or IDsOne.
func IDsHere() string {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(file)
		if err != nil || sum(string(text)) < manyIDs {
			return IDsOne
		}
	}
	return IDsAll
}

// sum adds up the ids of a map in the form of /proc/PID/uid_map.
func sum(text string) (ids uint64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.ParseUint(f[2], 10, 64) // the kernel always writes numbers
			ids += n
		}
	}
	return ids
}
