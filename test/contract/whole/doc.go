// Package whole runs real clusters with contract v1beta1: the definitions have only the label of that contract, so all
// controllers of Cluster API use that contract, from the first machine to the deletion. The tests in test/e2e do the
// same with contract v1beta2.
package whole
