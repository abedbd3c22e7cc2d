package kubelet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc/PID/stat.
const tick = 10 * time.Millisecond

// usage returns the processor time and the memory of all processes of this host: those that its /proc shows. The time
// includes processes that have ended. Pages of files and shared memory are not counted, because processes of all hosts
// share the same programs.
func usage() (cpu time.Duration, memory uint64, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, 0, fmt.Errorf("listing the host's processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0, fmt.Errorf("listing the host's processes: %w", err)
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // the process has just ended
		}
		pages, err := os.ReadFile("/proc/" + name + "/statm")
		if err != nil {
			continue
		}
		cpu += parseTime(string(stat))
		memory += parseAlone(string(pages))
	}
	return cpu, memory, nil
}

// parseTime returns the processor time of a process and of the children that it has reaped (fields 14 to 17) from
// /proc/PID/stat. Orphans become children of PID 1, so the sum over all processes never falls.
func parseTime(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0
	}
	var ticks time.Duration
	for _, field := range fields[11:15] {
		n, _ := strconv.ParseInt(field, 10, 64) // the kernel always writes numbers
		ticks += time.Duration(n)
	}
	return ticks * tick
}

// parseAlone returns the resident memory that a process shares with no file and no other process (fields 2 and 3) from
// /proc/PID/statm.
func parseAlone(statm string) uint64 {
	fields := strings.Fields(statm)
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseUint(fields[1], 10, 64) // the kernel always writes numbers
	shared, _ := strconv.ParseUint(fields[2], 10, 64)
	return (resident - min(shared, resident)) * uint64(os.Getpagesize())
}
