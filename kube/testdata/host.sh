#!/bin/sh
# host.sh ROOT NAME ADDRESS GATEWAY BUNDLES VERSION: the first process of a test host, in new network, mount, UTS, PID
# and IPC namespaces. It creates the root directory, waits for eth0, and then executes init.sh inside the root.
set -eu
root=$1 name=$2 address=$3 gateway=$4 bundles=$5 version=$6 scripts=$(dirname "$0")

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mkdir -p etc var/lib/kubelet var/log run tmp opt/capstan/bundles root home usr proc sys dev usr_local/bin
for d in bin sbin lib lib32 lib64; do
	if [ -L "/$d" ]; then ln -sfn "$(readlink "/$d")" "$d"; elif [ -d "/$d" ]; then mkdir -p "$d" && mount --rbind "/$d" "$d"; fi
done
mount --rbind /usr usr
mount --bind usr_local usr/local
mount --bind "$bundles" opt/capstan/bundles
[ -L var/run ] || ln -s /run var/run

mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs tmpfs sys/fs/cgroup
echo "cpuset cpu io memory hugetlb pids freezer devices" > sys/fs/cgroup/cgroup.controllers
mount -t tmpfs -o mode=755 tmpfs dev
for d in null zero full random urandom tty; do touch "dev/$d" && mount --bind "/dev/$d" "dev/$d"; done
ln -s null dev/kmsg
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx

hostname "$name"
echo "$name" > etc/hostname
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" > etc/hosts
echo "nameserver $gateway" > etc/resolv.conf
cp /etc/os-release etc/ 2>/dev/null || :
[ -s etc/machine-id ] || tr -d - < /proc/sys/kernel/random/uuid > etc/machine-id
printf 'root:x:0:0:root:/root:/bin/sh\n' > etc/passwd
cp "$scripts/init.sh" "$scripts/systemctl" usr_local/bin/

ip link set lo up
n=0
until ip link show eth0 >/dev/null 2>&1; do
	n=$((n + 1))
	[ $n -lt 500 ] || { echo "eth0 did not appear" >&2; exit 1; }
	sleep 0.01
done
ip addr add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
echo 1 > proc/sys/net/ipv4/ip_forward

mkdir -p old
pivot_root . old
umount -l /old
exec /bin/sh /usr/local/bin/init.sh "$version"
