// Package local runs a management plane with hosts on this machine from any Go program. It does what "capstan up",
// "capstan status" and "capstan down" do, but writes to no stream and never prompts.
//
//	place := local.Place{Home: "/var/tmp/demo", Binaries: "/opt/capstan/bin"}
//	plane, err := local.Up(ctx, local.UpOptions{Place: place, Hosts: 3})    // returns when all is ready
//	c, err := local.Connect(place.Home)                                     // a client for its API server
//	hosts, err := local.Hosts(ctx, c, local.Namespace)
//	err = local.Down(ctx, local.DownOptions{Home: place.Home, Delete: true})
//
// A plane keeps running after the program that started it exits. All state is in the home directory; calling Up again
// with the same one restores it.
//
// Errors that a caller may act on are typed: [*NoPlaneError], [ErrNotRunning], [ErrDockEnded], [ErrBusy]. Many errors
// also offer advice in a method Hint() string; use errors.As with an interface that has this method to find it.
package local
