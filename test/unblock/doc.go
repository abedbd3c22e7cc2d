// Package unblock tests the unblocking of hooks, and the Events about blocks, with a real API server and a real
// extension.
package unblock
