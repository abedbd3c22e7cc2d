// Package lifecycle tests the hooks around the life of a Cluster over several Kubernetes minor releases: with a real
// API server, Cluster API's own reconcilers of topologies and admission of Clusters, our client of the Runtime SDK and
// a real extension. Nothing really runs these versions: the tests play control planes and workers, which take on
// whatever version is requested.
package lifecycle
