// Package layers tests which packages may import which (the table at the end of docs/architecture.md), and which
// versions of modules they share.
package layers
