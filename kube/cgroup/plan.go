// Package cgroup creates the control groups of pods and their containers in the part of the machine's tree that was
// delegated to this host. The owner of the machine limits the host as a whole, in groups that the host can't change.
//
// The part has one directory for each controller of version 1 (cpu, memory, pids), or one named unified for version 2.
// Each of these directories holds the groups pods/POD and pods/POD/CONTAINER.
package cgroup

import (
	"strconv"
	"strings"
)

// DefaultDir is the directory of a host's part of the tree.
const DefaultDir = "/opt/capstan/cgroup"

// unified is the name of the directory for version 2, which has a single tree.
const unified = "unified"

// controllers are the controllers that limit pods and containers.
var controllers = []string{"cpu", "memory", "pids"}

// Limits are the limits of one group; 0 leaves a limit unchanged, -1 removes it.
type Limits struct {
	// Shares is the processor weight in units of version 1: at least 2, and 1024 for each requested processor.
	Shares int64
	// Quota is how long, in microseconds, the group may use processors in each Period, also in microseconds.
	Quota, Period int64
	// Memory is in bytes.
	Memory int64
	// Processes is the number of processes and threads.
	Processes int64
}

// Bounds of the kernel.
const (
	minShares, maxShares = 2, 262144
	maxWeight            = 10000
	usualPeriod          = 100000
)

// setting is a value to write to a file of a group. If the setting is optional, the write may fail.
type setting struct {
	file, value string
	optional    bool
}

// plan returns what to write, in order, into a controller's group.
func plan(controller string, l Limits) []setting {
	switch controller {
	case "cpu":
		return planCPU(l)
	case "memory":
		return planMemory(l)
	case "pids":
		return planProcesses(l)
	case unified:
		return planUnified(l)
	}
	return nil
}

func planCPU(l Limits) []setting {
	var all []setting
	if l.Shares > 0 {
		all = append(all, setting{file: "cpu.shares", value: number(shares(l))})
	}
	if l.Period > 0 {
		all = append(all, setting{file: "cpu.cfs_period_us", value: number(l.Period)})
	}
	if l.Quota != 0 {
		all = append(all, setting{file: "cpu.cfs_quota_us", value: number(max(l.Quota, -1))})
	}
	return all
}

// planMemory limits memory, and sets the limit of memory plus swap to the same value. The kernel requires that the
// limit of memory plus swap is never lower than the limit of memory.
func planMemory(l Limits) []setting {
	if l.Memory == 0 {
		return nil
	}
	value := number(max(l.Memory, -1))
	swapped := setting{"memory.memsw.limit_in_bytes", value, true}
	return []setting{swapped, {file: "memory.limit_in_bytes", value: value}, swapped}
}

func planProcesses(l Limits) []setting {
	if l.Processes == 0 {
		return nil
	}
	return []setting{{file: "pids.max", value: orMax(l.Processes)}}
}

func planUnified(l Limits) []setting {
	var all []setting
	if l.Shares > 0 {
		weight := 1 + (shares(l)-minShares)*(maxWeight-1)/(maxShares-minShares)
		all = append(all, setting{file: "cpu.weight", value: number(weight)})
	}
	if l.Quota != 0 {
		period := l.Period
		if period <= 0 {
			period = usualPeriod
		}
		all = append(all, setting{file: "cpu.max", value: orMax(l.Quota) + " " + number(period)})
	}
	if l.Memory != 0 {
		all = append(all, setting{file: "memory.max", value: orMax(l.Memory)},
			setting{"memory.swap.max", "0", true}, setting{"memory.oom.group", "1", true})
	}
	return append(all, planProcesses(l)...)
}

func shares(l Limits) int64 { return min(max(l.Shares, minShares), maxShares) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func orMax(n int64) string {
	if n < 0 {
		return "max"
	}
	return number(n)
}

// count returns one number from a file with lines "NAME NUMBER".
func count(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel always writes numbers
			return n
		}
	}
	return 0
}
