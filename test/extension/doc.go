// Package extension tests Capstan's own runtime extension with a real API server: with only the rights of its role, in
// a workload cluster that it really changes, and with the manifests that deploy it.
package extension
