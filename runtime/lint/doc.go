// Package lint reads the hooks of Go packages from their source, and reports what changes to them break. [Run] is for
// publishers of hooks: it compares a package with a lock file or with another release. [Preflight] is for those who
// upgrade Cluster API: it reports what breaks for their installed extensions.
//
// Nothing is compiled. The go command must be installed; it downloads missing modules. Package rules defines what
// counts as a break.
package lint
