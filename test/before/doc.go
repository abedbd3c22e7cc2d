// Package before upgrades a plane that runs from the release before to this one, and goes back, with the real programs
// of both. "make test-before" builds those of the release before.
package before
