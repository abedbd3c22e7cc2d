// Package tutorial runs the commands of docs/tutorial.md in their order, as a reader types them: make test-tutorial.
package tutorial
