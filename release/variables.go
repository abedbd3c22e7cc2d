package release

// variables describes each variable in the repository's files, for docs/flavors.md.
var variables = map[string]string{
	"CLUSTER_NAME":       "name of the Cluster: the argument of `clusterctl generate cluster`",
	"KUBERNETES_VERSION": "Kubernetes version, such as v1.36.3: flag `--kubernetes-version`",
	"CONTROL_PLANE_MACHINE_COUNT": "number of control plane machines, which must be odd: flag " +
		"`--control-plane-machine-count`",
	"WORKER_MACHINE_COUNT": "number of worker machines (with flavor `ha`, in each zone): flag " +
		"`--worker-machine-count`",

	"CAPSTAN_ENDPOINT_HOST": "address or name at which clients reach the API server of the cluster; with kube-vip, a " +
		"free address of the hosts' network",
	"CAPSTAN_ENDPOINT_PORT": "port of the API server's endpoint",
	"CAPSTAN_VIP_IMAGE": "image of kube-vip that the hosts can pull; in flavor `topology-owned`, leave it empty to use " +
		"an endpoint of your own",
	"CAPSTAN_VIP_INTERFACE": "network interface of the hosts that gets the address; if empty, the interface of the " +
		"default route",
	"CAPSTAN_POD_CIDR":     "addresses of Pods",
	"CAPSTAN_SERVICE_CIDR": "addresses of Services",
	"CAPSTAN_ZONE_1":       "zone of the first MachineDeployment",
	"CAPSTAN_ZONE_2":       "zone of the second MachineDeployment",
	"CAPSTAN_ZONE_3":       "zone of the third MachineDeployment",

	"CAPSTAN_CONCURRENCY": "number of objects of each kind that capstan-manager works on at the same time",
	"CAPSTAN_HOST_RATE": "how many operations of each kind, such as claims and releases, are allowed per second on all " +
		"hosts together",
	"CAPSTAN_EACH_HOST_RATE": "how many operations of each kind are allowed per second on one host",
	"CAPSTAN_UNLINKED_TIMEOUT": "how long the Machine or Cluster of a claimed host may be missing before the host is " +
		"marked as left behind",
	"CAPSTAN_METRICS_BIND": "address at which capstan-manager serves its metrics, such as `:8080` to let others read " +
		"them; `0` turns the metrics off",
	"CAPSTAN_LOG_LEVEL": "how much capstan-manager logs, from 0 to 5",
	"CAPSTAN_WATCH_FILTER": "value of label `cluster.x-k8s.io/watch-filter` of the objects to work on; if empty, " +
		"capstan-manager works on all objects",

	"CAPSTAN_EXTENSION_NAMESPACE": "namespace of the runtime extension, for its ExtensionConfig; if you use the flag " +
		"`--target-namespace`, set both to the same namespace",
}
