// Package source reads what capstan verify judges: the files of a release of a Cluster API provider, with the position
// of each object and field.
//
// [Open] reads a release directory, a repository with several releases, one file, an archive of these, a kustomize base
// or the config directory of a Go module. It needs no network, runs no program, and bounds what it reads.
package source
