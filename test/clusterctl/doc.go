// Package clusterctl tests the releases of Capstan with the real clusterctl, built from the module that Capstan uses:
// it installs them from a local repository into a real API server, generates clusters, upgrades and deletes. No
// containers run there: controllers run as processes where a test is about them, as their Deployments say. The
// definitions of cert-manager are stand-ins, because only its API is looked for.
package clusterctl
