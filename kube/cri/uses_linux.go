package cri

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usesAge is how long figures of all processes are reused, so that a request for many containers reads them once.
const usesAge = time.Second

// uses holds the resource usage of real containers' processes. A container's processes are recognized by their mount
// namespace, which no other container shares.
type uses struct {
	mu     sync.Mutex
	at     time.Time
	mounts map[string]together // by mount namespace
}

// together is the usage of several processes. Pages that they share count once: the sum of what each has alone, and the
// most that one of them shares.
type together struct {
	cpu           time.Duration
	alone, shared uint64
}

// add adds one process.
func (t together) add(one usage, ended time.Duration, shared uint64) together {
	shared = min(shared, one.memory)
	// Include reaped children, or the sum would fall when one ends.
	return together{
		cpu: t.cpu + one.cpu + ended, alone: t.alone + one.memory - shared, shared: max(t.shared, shared),
	}
}

// of returns the usage of all processes of a container, given one of them.
func (u *uses) of(pid int) usage {
	mounts, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	if err != nil {
		return usage{} // it has ended
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(u.at) > usesAge {
		u.mounts, u.at = readUses(), time.Now()
	}
	sum := u.mounts[mounts]
	return usage{cpu: sum.cpu, memory: sum.alone + sum.shared}
}

func readUses() map[string]together {
	all := map[string]together{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // use what could be read
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		// Skip processes that have just ended.
		mounts, err := os.Readlink("/proc/" + name + "/ns/mnt")
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		pages, err := os.ReadFile("/proc/" + name + "/statm")
		if err != nil {
			continue
		}
		all[mounts] = all[mounts].add(parseUsage(string(stat)), parseEnded(string(stat)), parseShared(string(pages)))
	}
	return all
}

// parseShared reads the resident pages of files and shared memory (field 3) from /proc/PID/statm.
func parseShared(statm string) uint64 {
	fields := strings.Fields(statm)
	if len(fields) < 3 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[2], 10, 64) // the kernel always writes numbers
	return pages * uint64(os.Getpagesize())
}
