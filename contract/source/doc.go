// Package source reads what capstan verify checks: the files of a provider's release, with the position of each object
// and field.
//
// [Open] reads a release directory, a repository with several releases, one file, an archive of any of these, a
// kustomize base or the config directory of a Go module. A [Reader] does the same with values for variables. Reading
// needs no network, runs no program and is bounded.
package source
