#!/bin/sh
# A machine runs this script first. systemd-nspawn has mounted the cgroup file systems read-only; make them writable.
set -e
awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts | while read -r m; do mount -o remount,bind,rw "$m"; done
# The kernel shares each of these settings among all machines and the computer. The machine gets a file in place of each
# setting, so that it can write the file without changing the setting.
for f in vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	mkdir -p "/run/machine/${f%/*}"
	cat "/proc/sys/$f" > "/run/machine/$f"
	mount --bind "/run/machine/$f" "/proc/sys/$f"
done
ln -sf null /dev/kmsg
mount --make-rshared /
