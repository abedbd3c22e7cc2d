// Package mode says what containers of a host are: hollow, or from their images, and what these can have. The CRI
// server says so in its verbose status, the kubelet labels its Node with it.
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
	// HollowLabel is "true" on a Node whose pods are hollow, but for components. Others don't have it.
	HollowLabel = "capstan.dev/hollow"
	// IDsLabel says which ids containers can have: IDsAll or IDsOne. Hollow Nodes don't have it.
	IDsLabel = "capstan.dev/ids"
	// LimitsLabel says which limits hold, such as "cpu.memory.pids", or LimitsNone. Hollow Nodes don't have it.
	LimitsLabel = "capstan.dev/limits"
)

// Values of labels.
const (
	IDsAll     = "all" // 65,536 at least
	IDsOne     = "one"
	LimitsNone = "none"
)

// Mode is what containers are.
type Mode struct {
	Hollow bool
	IDs    string
	Limits string
}

// The names in a CRI status.
const (
	infoHollow = "capstan.hollow"
	infoIDs    = "capstan.ids"
	infoLimits = "capstan.limits"
)

// Info is the mode as the CRI's verbose status has it: each value is JSON.
func (m Mode) Info() map[string]string {
	return map[string]string{
		infoHollow: strconv.FormatBool(m.Hollow),
		infoIDs:    strconv.Quote(m.IDs),
		infoLimits: strconv.Quote(m.Limits),
	}
}

// Parse reads a CRI status. Runtime is the runtime's name. A server of ours that says nothing is one of before, whose
// containers are hollow; other runtimes' are not, and nothing is known about what they can have.
func Parse(runtime string, info map[string]string) Mode {
	said, ok := info[infoHollow]
	if !ok {
		return Mode{Hollow: runtime == RuntimeName}
	}
	return Mode{Hollow: said == "true", IDs: strings.Trim(info[infoIDs], `"`), Limits: strings.Trim(info[infoLimits], `"`)}
}

// Labels are those of a Node.
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

// manyIDs are as many as containers of other runtimes have.
const manyIDs = 65536

// IDsHere returns which ids this process's user namespace has.
func IDsHere() string {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(file)
		if err != nil || sum(string(text)) < manyIDs {
			return IDsOne
		}
	}
	return IDsAll
}

// sum adds up the ids of a map as /proc/PID/uid_map has it.
func sum(text string) (ids uint64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.ParseUint(f[2], 10, 64) // the kernel writes numbers
			ids += n
		}
	}
	return ids
}
