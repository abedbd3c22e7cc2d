// Package upstream is a suite that calls Cluster API's own end-to-end specs on a plane of capstan up. The specs come
// unchanged from the module sigs.k8s.io/cluster-api/test. This package supplies the inputs that upstream leaves to each
// provider: flavors, the expected form of objects of our kinds, and how to reach clusters. It has its own go.mod,
// because that module requires hundreds of others. Run it with make test-upstream-e2e.
package upstream
