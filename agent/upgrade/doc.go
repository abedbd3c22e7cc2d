// Package upgrade replaces the agent with the one that its plane offers (docs/adr/0037).
//
// The program file is replaced last. Until then the service manager still starts the old agent, and the new one runs as
// its child, on trial:
//
//	Next  ask for the version, download the program, compare its checksum, and let it report its version
//	Try   run the new agent in place of the old one until it has reported to the management cluster, then install it
//
// Whatever stops the old agent in between, even a power failure, the next start runs either the old program or a new
// one that has reported.
package upgrade
