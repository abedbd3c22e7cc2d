// Package reader types the commands of README.md and of the tutorial in a shell, in their order, and compares their
// output with the pages. Run it with make test-docs. HTML comments above a block, which readers don't see, say how the
// block runs.
package reader
