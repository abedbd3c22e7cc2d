// Package local runs a management plane with hosts on this machine, for any Go program: what "capstan up", "capstan
// status" and "capstan down" do, without a command line. It writes to no stream and asks nobody.
//
//	place := local.Place{Home: "/var/tmp/demo", Binaries: "/opt/capstan/bin"}
//	plane, err := local.Up(ctx, local.UpOptions{Place: place, Hosts: 3})    // returns when all is ready
//	c, err := local.Connect(place.Home)                                     // a client for its API server
//	hosts, err := local.Hosts(ctx, c, local.Namespace)
//	err = local.Down(ctx, local.DownOptions{Home: place.Home, Delete: true})
//
// A plane goes on without the program that started it. All state is in the home directory, and another Up with the
// same one brings back what was there.
//
// Errors that a caller may act on are typed: [*NoPlaneError], [ErrNotRunning], [ErrDockEnded], [ErrBusy]. Many errors
// also carry advice in a method Hint() string; errors.As with an interface of that method finds it.
package local
