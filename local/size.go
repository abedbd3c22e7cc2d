package local

import (
	"encoding/json"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// sizeFile keeps the number of hosts in the home directory.
const sizeFile = "up.json"

// inventorySize decides how many local hosts there are: what is wanted now, else what was the last time, else what
// the machine can hold. The number is kept in the home directory.
func inventorySize(dir home.Dir, wanted int) (int, error) {
	path := filepath.Join(string(dir), sizeFile)
	var kept struct {
		Hosts int `json:"hosts"`
	}
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &kept); err != nil {
			return 0, hint.Errorf("remove that file and try again", "reading %s: %w", path, err)
		}
	}
	if wanted == 0 {
		wanted = kept.Hosts
	}
	if wanted == 0 {
		wanted = hostsFor(memoryMiB(), inotifyInstances())
	}
	if wanted == kept.Hosts {
		return wanted, nil
	}
	kept.Hosts = wanted
	data, err := json.Marshal(kept)
	if err != nil {
		return 0, err
	}
	return wanted, atomicfile.Write(path, data, 0o600)
}

// hostsFor returns how many local hosts a machine can hold: one for each 512 MiB beyond what the plane takes, and one
// for each 8 inotify instances (a control plane takes 18, a worker 5); 3 to 32. Zero means unknown.
func hostsFor(memoryMiB, inotifyInstances int) int {
	n := 32
	if memoryMiB > 0 {
		n = min(n, (memoryMiB-1536)/512)
	}
	if inotifyInstances > 0 {
		n = min(n, inotifyInstances/8)
	}
	return max(n, 3)
}

func memoryMiB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
}

func inotifyInstances() int {
	n, err := dock.InotifyInstances()
	if err != nil {
		return 0
	}
	return n
}
