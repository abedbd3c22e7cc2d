package local

import (
	"fmt"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
)

// diskWarning returns a warning about the disk of a home directory, or "" if there is room. Status computes it, because
// a plane whose disk is full can't write a warning.
func diskWarning(dir home.Dir) string {
	limits, err := dock.ReadLimits(string(dir))
	if err != nil {
		return "" // the next start reports it
	}
	return fullDisk(string(dir), limits.FreeDisk)
}

// fullDisk returns a warning if too few bytes are free on the disk of a home directory. Pure.
func fullDisk(path string, free uint64) string {
	const advice = "free some space; the plane then continues by itself"
	switch {
	case free < dock.LeastDisk/64:
		return "the disk of " + path + " is full, and the plane can't store changes: " + advice
	case free < dock.LeastDisk:
		return fmt.Sprintf("the disk of %s has %d MiB left, but a start needs %d MiB, and a plane with a full disk can't "+
			"store changes: %s", path, free>>20, dock.LeastDisk>>20, advice)
	}
	return ""
}
