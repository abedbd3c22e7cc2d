// Package definitions tests Capstan's CustomResourceDefinitions against those rules of the provider contracts that a
// definition alone shows: names, labels, and the fields of each contract version. It needs no API server.
package definitions
