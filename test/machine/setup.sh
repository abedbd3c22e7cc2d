#!/bin/sh
# What a machine does first: systemd-nspawn has left these read-only.
set -e
awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts | while read -r m; do mount -o remount,bind,rw "$m"; done
# The kernel has one of each of these for all: a file of the machine's own keeps what is written.
for f in vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	mkdir -p "/run/machine/${f%/*}"
	cat "/proc/sys/$f" > "/run/machine/$f"
	mount --bind "/run/machine/$f" "/proc/sys/$f"
done
ln -sf null /dev/kmsg
mount --make-rshared /
