package cri

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// usesAge is how old what was read of all processes may be. Asking for many containers reads them once.
const usesAge = time.Second

// uses are what the processes of real containers use. Those of one container are found by its mount namespace, which
// no other has.
type uses struct {
	mu     sync.Mutex
	at     time.Time
	mounts map[string]usage // by mount namespace
}

// of returns what all processes of a container use, given one of them.
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
	names, _ := dir.Readdirnames(-1) // what could be read
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		// A process may end at any moment.
		mounts, err := os.Readlink("/proc/" + name + "/ns/mnt")
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		one, sum := parseUsage(string(stat)), all[mounts]
		// With what its children used that have ended, or the sum would fall.
		sum.cpu += one.cpu + parseEnded(string(stat))
		sum.memory += one.memory
		all[mounts] = sum
	}
	return all
}
