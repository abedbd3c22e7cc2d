package cri

import (
	"os"
	"strconv"
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
	mounts map[string]usage // by mount namespace
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
	return u.mounts[mounts]
}

func readUses() map[string]usage {
	all := map[string]usage{}
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
		one, sum := parseUsage(string(stat)), all[mounts]
		// Include reaped children, or the sum would fall when one ends.
		sum.cpu += one.cpu + parseEnded(string(stat))
		sum.memory += one.memory
		all[mounts] = sum
	}
	return all
}
