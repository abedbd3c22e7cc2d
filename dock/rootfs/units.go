package rootfs

// unitFiles are the services of every local host, by path below /etc/systemd/system. kubelet.service and its drop-in
// are kubeadm's own, except for RestartSec (kubeadm's 10 s is too slow where a cluster is ready in 20 s) and the memory
// settings.
var unitFiles = map[string]string{
	"containerd.service": `[Unit]
Description=CRI server of a local host, in the place of containerd
After=network.target

[Service]
Type=notify
ExecStart=/usr/local/bin/capstan-kube cri
Environment=GOGC=50 GOMAXPROCS=2
Restart=always
RestartSec=1
KillMode=process

[Install]
WantedBy=multi-user.target
`,
	"kubelet.service": `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target containerd.service

[Service]
ExecStart=/usr/local/bin/kubelet
Environment=GOGC=50 GOMAXPROCS=2
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
`,
	"kubelet.service.d/10-kubeadm.conf": `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
# kubeadm init and kubeadm join write this file.
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# The user's own flags (KUBELET_EXTRA_ARGS) come from here.
EnvironmentFile=-/etc/default/kubelet
EnvironmentFile=-/etc/sysconfig/kubelet
ExecStart=
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`,
	"capstan-agent.service": `[Unit]
Description=Capstan's agent
After=network.target

[Service]
ExecStart=/opt/capstan/bin/capstan-agent --config /etc/capstan/agent.yaml
Environment=GOGC=50 GOMAXPROCS=2
Restart=always
RestartSec=1
KillMode=process

[Install]
WantedBy=multi-user.target
`,
}
