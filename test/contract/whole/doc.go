// Package whole runs real clusters by contract v1beta1: the definitions have only the label of that contract, so that
// all of Cluster API uses it, from the first machine to the deletion. The tests in test/e2e do the same with contract
// v1beta2.
package whole
