package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, on all architectures.
const tick = 10 * time.Millisecond

// proc is a process, with the resources that it has used so far.
type proc struct {
	name   string
	parent string
	// own is its own processor time; ended is that of its children that have exited.
	own, ended time.Duration
	// wakeups is how often its threads have waited.
	wakeups int
}

// processes returns all processes of the machine. The keys are their process ids.
func processes() map[string]proc {
	all := map[string]proc{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has exited
		}
		pid := filepath.Base(filepath.Dir(path))
		if p, err := parseStat(string(data)); err == nil {
			p.name = processName(pid)
			all[pid] = p
		}
	}
	return all
}

// parseStat reads the text of /proc/PID/stat. Pure.
func parseStat(text string) (p proc, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return p, fmt.Errorf("%q has too few fields", text)
	}
	var ticks [4]int
	for i, field := range fields[11:15] {
		if ticks[i], err = strconv.Atoi(field); err != nil {
			return p, err
		}
	}
	return proc{
		parent: fields[1], own: time.Duration(ticks[0]+ticks[1]) * tick, ended: time.Duration(ticks[2]+ticks[3]) * tick,
	}, nil
}

// below returns the processes of a home directory's dock, and all their descendants.
func below(all map[string]proc, home string) map[string]proc {
	found := map[string]proc{}
	for pid := range all {
		cmdline, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if bytes.Contains(cmdline, []byte("capstan-dock\x00run")) && bytes.Contains(cmdline, []byte(home)) {
			found[pid] = all[pid]
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			_, has := found[pid]
			if _, is := found[p.parent]; is && !has {
				found[pid], grown = p, true
			}
		}
	}
	return found
}

// processName returns the name of the program that a process runs: the applet, for a binary with several.
func processName(pid string) string {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		return "?"
	}
	args := strings.Split(string(data), "\x00")
	name := filepath.Base(args[0])
	if (name == "capstan-kube" || name == "capstan-dock" || name == "capstan") && len(args) > 1 {
		name += " " + filepath.Base(args[1])
	}
	return name
}

// wakeups returns how often the threads of a process have waited for something.
func wakeups(pid string) int {
	sum := 0
	tasks, _ := filepath.Glob(filepath.Join("/proc", pid, "task/*/status"))
	for _, path := range tasks {
		data, _ := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(rest))
				sum += n
			}
		}
	}
	return sum
}

// ofDock reads the processes of a dock, with their wakeups.
func ofDock(home string) (map[string]proc, error) {
	all := below(processes(), home)
	if len(all) == 0 {
		return nil, fmt.Errorf("no process of a dock in %s runs", home)
	}
	for pid, p := range all {
		p.wakeups = wakeups(pid)
		all[pid] = p
	}
	return all, nil
}

// use is what all processes of one name have used.
type use struct {
	name      string
	processes int
	time      time.Duration
	wakeups   int
}

// used returns what processes used between two readings: one entry for each process name, the largest first, and the
// sum of the processor time. The use of a process that exited in between counts for the parent that waited for it.
// Pure.
func used(before, after map[string]proc) (byName []use, sum time.Duration) {
	uses := map[string]*use{}
	of := func(p proc) *use {
		if uses[p.name] == nil {
			uses[p.name] = &use{name: p.name}
		}
		return uses[p.name]
	}
	for _, p := range after {
		u := of(p)
		u.processes++
		u.time += p.own + p.ended
		u.wakeups += p.wakeups
		sum += p.own + p.ended
	}
	for pid, p := range before {
		u := of(p)
		_, still := after[pid]
		if parent, has := before[p.parent]; !still && has {
			u = of(parent) // which now includes the time of this process
		}
		u.time -= p.own + p.ended
		sum -= p.own + p.ended
		if still {
			u.wakeups -= p.wakeups
		}
	}
	for _, u := range uses {
		byName = append(byName, *u)
	}
	slices.SortFunc(byName, func(a, b use) int {
		if a.time != b.time {
			return int(b.time - a.time)
		}
		return b.wakeups - a.wakeups
	})
	return byName, sum
}

// idle returns the share of one processor, in percent, that a dock uses while nobody sends it requests.
func idle(home string, during time.Duration) (percent float64, table []string, err error) {
	before, err := ofDock(home)
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	time.Sleep(during)
	after, err := ofDock(home)
	if err != nil {
		return 0, nil, err
	}
	took := time.Since(began)
	byName, sum := used(before, after)
	table = append(table, fmt.Sprintf("%-34s %9s %9s %12s", "process", "how many", "% of core", "wakeups a s"))
	for _, u := range byName {
		share, waits := share(u.time, took), float64(u.wakeups)/took.Seconds()
		if share >= 0.05 || waits >= 1 {
			table = append(table, fmt.Sprintf("%-34s %9d %9.2f %12.1f", u.name, u.processes, share, waits))
		}
	}
	return share(sum, took), table, nil
}

func share(part, whole time.Duration) float64 { return 100 * part.Seconds() / whole.Seconds() }

// memory returns the proportional set size of a dock's processes in GiB, and a table with the MiB of each process name.
func memory(home string) (gib float64, table []string, err error) {
	byName := map[string]int{}
	total := 0
	for pid, p := range below(processes(), home) {
		data, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
		if errors.Is(err, fs.ErrPermission) {
			return 0, nil, fmt.Errorf("reading the memory of %s: %w", p.name, err)
		}
		for line := range strings.Lines(string(data)) { // no lines: the process has exited
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.Atoi(strings.Fields(rest)[0])
				total += kib
				byName[p.name] += kib
			}
		}
	}
	if total == 0 {
		return 0, nil, fmt.Errorf("no process of a dock in %s runs", home)
	}
	names := slices.SortedFunc(maps.Keys(byName), func(a, b string) int { return byName[b] - byName[a] })
	table = append(table, fmt.Sprintf("%-34s %9s", "process", "MiB"))
	for _, n := range names {
		table = append(table, fmt.Sprintf("%-34s %9.1f", n, float64(byName[n])/1024))
	}
	return float64(total) / (1 << 20), table, nil
}

// load returns the load average of the last minute.
func load() float64 {
	value, _ := strconv.ParseFloat(loadAverage(), 64)
	return value
}
