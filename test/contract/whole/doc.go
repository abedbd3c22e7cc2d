// Package whole runs real clusters by contract v1beta1: the definitions carry the label of that contract only, so that
// all of Cluster API works by it, from the first machine to the deletion. The tests in test/e2e do the same by contract
// v1beta2.
package whole
