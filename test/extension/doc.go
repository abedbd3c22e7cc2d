// Package extension tests the runtime extension that Capstan ships on a real API server: with the rights that its role
// gives and no others, in a workload cluster that is really changed, and with the manifests that deploy it.
package extension
