#!/bin/sh
# init.sh VERSION: PID 1 of a test host, which runs the bundle of this version. It keeps the CRI server running and,
# while /run/kubelet.wanted exists (see systemctl), the kubelet.
export PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
version=$1
for applet in cri kubeadm kubelet kubectl; do
	ln -sf "/opt/capstan/bundles/$version/capstan-kube" "/usr/local/bin/$applet"
done

keep() { # keep NAME CONDITION COMMAND...: restarts the command while the condition holds
	name=$1 condition=$2
	shift 2
	while :; do
		if $condition; then
			"$@" >> "/var/log/$name.log" 2>&1 &
			pid=$!
			echo $pid > "/run/$name.pid"
			wait $pid
			rm -f "/run/$name.pid"
		fi
		sleep 0.05
	done
}
kubelet_wanted() { [ -e /run/kubelet.wanted ]; }
kubelet_run() {
	KUBELET_KUBEADM_ARGS=
	[ -r /var/lib/kubelet/kubeadm-flags.env ] && eval "$(cat /var/lib/kubelet/kubeadm-flags.env)"
	GOGC=${KUBELET_GOGC:-50} exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
		--kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
}
cri_run() { GOGC=50 exec cri; }

rm -f /run/*.pid /run/kubelet.wanted
[ ! -e /var/lib/kubelet/config.yaml ] || touch /run/kubelet.wanted # the unit is enabled
keep cri true cri_run &
keep kubelet kubelet_wanted kubelet_run &
touch /run/ready
while :; do wait; sleep 0.2; done
