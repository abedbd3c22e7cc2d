// Package release builds a release of Capstan: the provider repository that clusterctl reads, binaries, container
// images, a software bill of materials and checksums. The same sources, version and date produce the same bytes.
//
// [Repository] renders only the YAML files and takes a second; [Build] builds everything, including the binaries.
package release
