// Package rootfs makes the root directory of a local host and mounts it.
//
// Two things make up what a host sees as "/": a skeleton of files that belong to the host and survive a reboot
// (Write), and mounts that exist only while it runs, in a mount namespace of its own (PlanShared, Share, PlanOwn,
// Apply): the machine's programs read-only, our binaries read-only, and private /proc, /sys, /dev, /run and /tmp.
package rootfs
