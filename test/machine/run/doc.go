// Package run does what a person with three computers and a laptop does: from pasting the line to a cluster that runs
// pods, and from there back to free hosts. It requires root and a Debian: see test/machine.
package run
