// Package upstream is a suite that calls Cluster API's own end-to-end specs on a plane of capstan up. The specs' code
// is that of the module sigs.k8s.io/cluster-api/test and is not changed; here are the inputs that upstream leaves to
// each provider: flavors, what objects of our kinds look like, and how clusters are reached. It has a go.mod of its
// own, because that module brings hundreds of others. Run it with make test-upstream-e2e.
package upstream
