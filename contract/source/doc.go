// Package source reads what capstan verify judges: the files of a release of a Cluster API provider, with the position
// of each object and field.
//
// [Open] reads a release directory, a repository with several releases, one file, an archive of these, a kustomize base
// or the config directory of a Go module; a [Reader] does so with given values of variables. They need no network, run
// no program, and bound what they read.
package source
