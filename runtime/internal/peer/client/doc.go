//go:build !peer

// Package client stands in for the package of that name that Cluster API's own runtime client consists of. The command hack/peer lays its source over this
// folder, for tests that compare with it; without that there is nothing here.
package client
