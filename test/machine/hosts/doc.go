// Package hosts tests agents on real Debian machines with systemd, which enroll over the network like unknown
// computers. Run it with make test-machines.
package hosts
