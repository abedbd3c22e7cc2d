// Package unblock tests the emergency exit of hooks, and the Events about blocks, with a real API server and a real
// extension.
package unblock
