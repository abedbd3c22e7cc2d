// Package upgrade replaces the agent by the one that its plane offers (docs/adr/0037).
//
// The program is replaced last. Until then the old agent stays what the service manager starts, and the new one runs as
// its child, on trial:
//
//	Next  ask for the version, fetch the program beside the present one, compare its checksum, let it say its name
//	Try   run it in the old one's place until it has reported to the management cluster, then put it there
//
// Whatever ends the old agent in between, a loss of power too, the next start begins with the old program, or with a
// new one that has reported.
package upgrade
