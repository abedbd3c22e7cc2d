// Package machine makes computers for tests: a Debian root with systemd as its first process, its own network and host
// name, and the container runtime of the distribution. systemd-nspawn starts each computer in namespaces that this
// package makes, so nothing changes on the computer that runs the test. This requires root, and a Debian with
// mmdebstrap.
//
//	Main       runs tests in a network of their own, which machines are plugged into
//	Preflight  tries what a machine needs, and says what this computer lacks
//	Root       returns the root that all machines begin with, which Main has made outside of the repository
//	Start      starts a machine
//
// A machine is as close to a computer as the kernel allows: what namespaces don't separate (global sysctls, modules,
// the clock) is read-only, or is replaced by a file of the machine, which only keeps what the machine writes.
package machine
