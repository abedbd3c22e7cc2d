// Package clusterctl tests the releases of Capstan with the real clusterctl, built from the module that Capstan uses:
// it installs them from a local repository into a real API server, generates clusters, upgrades and deletes. No
// containers run there: where a test needs a controller, it runs the controller as a process, configured by its
// Deployment. The definitions of cert-manager are stubs, because clusterctl only checks that its API exists.
package clusterctl
