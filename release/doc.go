// Package release makes what a release of Capstan consists of: the provider repository that clusterctl reads, binaries,
// container images, a software bill of materials and checksums. The same sources, version and date give the same bytes.
//
// [Repository] makes the YAML files and takes a second; [Build] makes everything, for which it compiles.
package release
