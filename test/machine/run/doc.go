// Package run does what a person with three computers and a laptop does: from pasting the line to a cluster that runs
// pods, and back. It requires root and a Debian: see test/machine.
package run
