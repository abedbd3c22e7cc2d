// Package lifecycle tests the hooks around the life of a Cluster over several Kubernetes minor releases: with a real
// API server, Cluster API's own reconcilers of topologies and admission of Clusters, our client of the Runtime SDK and
// a real extension. Versions are hollow: the tests play control planes and workers, which become what they are asked
// to be.
package lifecycle
