package local

import (
	"fmt"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
)

// diskWarning returns what to say of the disk that a home directory is on, "" if there is room. It is read by whoever
// asks for a status: a plane whose disk is full can't write a warning down.
func diskWarning(dir home.Dir) string {
	limits, err := dock.ReadLimits(string(dir))
	if err != nil {
		return "" // the next start says it
	}
	return fullDisk(string(dir), limits.FreeDisk)
}

// fullDisk judges how many bytes are free on the disk of a home directory. Pure.
func fullDisk(path string, free uint64) string {
	const advice = "free some space; the plane goes on by itself"
	switch {
	case free < dock.LeastDisk/64:
		return "the disk of " + path + " is full, and the plane can't keep changes: " + advice
	case free < dock.LeastDisk:
		return fmt.Sprintf("the disk of %s has %d MiB left, a start needs %d MiB, and a plane whose disk is full "+
			"can't keep changes: %s", path, free>>20, dock.LeastDisk>>20, advice)
	}
	return ""
}
