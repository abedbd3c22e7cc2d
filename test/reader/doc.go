// Package reader types the commands of README.md and of the tutorial in a shell, in their order, and compares what they
// print with what the pages show: make test-docs. HTML comments above a block, which readers don't see, say how the
// block runs.
package reader
