// Package before upgrades a running plane from the previous release to this one, and downgrades it again, with the real
// programs of both. "make test-before" builds the programs of the previous release.
package before
