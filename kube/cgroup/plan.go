// Package cgroup makes the control groups of pods and their containers in the part of the machine's that this host may
// write to. Who gave that part has limited the host as a whole, out of its reach.
//
// The part has a directory for each controller of version 1 (cpu, memory, pids), or one named unified of version 2. In
// each there are pods/POD and pods/POD/CONTAINER.
package cgroup

import (
	"strconv"
	"strings"
)

// DefaultDir is where a host has its part.
const DefaultDir = "/opt/capstan/cgroup"

// unified names the one tree of version 2.
const unified = "unified"

// controllers are those that pods and containers are limited by.
var controllers = []string{"cpu", "memory", "pids"}

// Limits are those of one group; 0 leaves one as it is, -1 takes it away.
type Limits struct {
	// Shares is the weight of the processors, from 2 up, as version 1 counts: 1024 for one processor that is requested.
	Shares int64
	// Quota and Period, in microseconds, are how long of each period the processors may be used.
	Quota, Period int64
	// Memory is in bytes.
	Memory int64
	// Processes is a number of processes and threads.
	Processes int64
}

// Bounds of the kernel.
const (
	minShares, maxShares = 2, 262144
	maxWeight            = 10000
	usualPeriod          = 100000
)

// setting is what to write to a file of a group. It may fail if it is optional.
type setting struct {
	file, value string
	optional    bool
}

// plan lists what to write for limits into the group of a controller, in order.
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

// planMemory limits memory, and memory with what is swapped out to the same: the second must never be the smaller one.
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

// count reads one number of a file with lines "NAME NUMBER".
func count(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			return n
		}
	}
	return 0
}
