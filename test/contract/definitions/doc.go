// Package definitions tests Capstan's CustomResourceDefinitions against the rules of the provider contracts that can be
// read off a definition: names, labels, and the fields of each contract version. It needs no API server.
package definitions
