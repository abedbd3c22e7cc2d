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

// together is the usage of several processes. Shared memory counts once: the total is the sum of the processes'
// private memory, plus the largest amount of shared memory that any one of them uses.
type together struct {
	cpu           time.Duration
	alone, shared uint64
}

// add adds one process. cpu must include the time of its reaped children: otherwise, the sum would fall when a child
// ends.
func (t together) add(cpu time.Duration, alone, shared uint64) together {
	return together{cpu: t.cpu + cpu, alone: t.alone + alone, shared: max(t.shared, shared)}
}

// of returns the usage of all processes of a container. pid is one of these processes.
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
		status, err := os.ReadFile("/proc/" + name + "/status")
		if err != nil {
			continue
		}
		alone, shared := parseMemory(string(status))
		all[mounts] = all[mounts].add(parseTime(string(stat))+parseEnded(string(stat)), alone, shared)
	}
	return all
}

// parseMemory reads the memory that a process has alone, and the shared memory that it uses, from /proc/PID/status.
// It leaves out pages of files, because all hosts of a machine share the pages of the same programs. The memory usage
// of Nodes leaves them out, too.
func parseMemory(status string) (alone, shared uint64) {
	for line := range strings.Lines(status) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // always a number
		if name == "RssAnon" {
			alone = kib << 10
		} else {
			shared = kib << 10
		}
	}
	return alone, shared
}
