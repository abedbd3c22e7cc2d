// Package machine makes computers for tests: a Debian root with systemd as its first process, a network and a host name
// of its own, and the container runtime of the distribution. systemd-nspawn starts it, in namespaces that this package
// made, so nothing of the computer that runs the test is changed. It takes root, and a Debian with mmdebstrap.
//
//	Main       runs tests in a network of their own, which machines are plugged into
//	Preflight  tries what a machine needs, and says what this computer can't
//	Root       makes the root that all machines begin with, and keeps it outside of the repository
//	Start      starts a machine
//
// A machine is as near to a computer as the kernel allows: what namespaces don't separate (sysctls that exist once,
// modules, the clock) is read-only, or a file of its own that keeps what is written.
package machine
