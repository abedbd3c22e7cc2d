// Package run goes the way of a person with three computers and a laptop: from the line that is pasted to a cluster
// that runs pods, and back. It takes root and a Debian: see test/machine.
package run
