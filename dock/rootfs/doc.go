// Package rootfs creates the root directory of a local host and mounts it.
//
// Two things make up what a host sees as "/". A skeleton of files belongs to the host and survives a reboot (Write).
// Mounts exist only while the host runs, in its own mount namespace (PlanShared, Share, PlanOwn, Apply): the machine's
// programs and our binaries read-only, and private /proc, /sys, /dev, /run and /tmp.
package rootfs
