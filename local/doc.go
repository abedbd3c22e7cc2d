// Package local is the management plane with hosts on this machine, for any Go program: what "capstan status" does, without a
// command line. It writes to no stream and asks nobody.
//
// Errors that a caller may act on are typed: [*NoPlaneError], [ErrNotRunning]. Many errors also carry advice in a method
// Hint() string; errors.As with an interface of that method finds it.
package local
