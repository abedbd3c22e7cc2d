package release

// variables describes each variable in the repository's files, for docs/flavors.md.
var variables = map[string]string{
	"CLUSTER_NAME":                "name of the Cluster: the argument of `clusterctl generate cluster`",
	"KUBERNETES_VERSION":          "Kubernetes version, such as v1.36.3: flag `--kubernetes-version`",
	"CONTROL_PLANE_MACHINE_COUNT": "number of control plane machines, an odd one: flag `--control-plane-machine-count`",
	"WORKER_MACHINE_COUNT":        "number of worker machines (flavor ha: in each zone): flag `--worker-machine-count`",

	"CAPSTAN_ENDPOINT_HOST": "address or name at which the API server of the cluster is reached; with kube-vip a free " +
		"address of the hosts' network",
	"CAPSTAN_ENDPOINT_PORT": "port of the API server's endpoint",
	"CAPSTAN_VIP_IMAGE": "image of kube-vip, from where the hosts can get it; flavor topology-owned: empty means " +
		"that the endpoint is yours",
	"CAPSTAN_VIP_INTERFACE": "network interface of the hosts that gets the address; empty: the one of the default route",
	"CAPSTAN_POD_CIDR":      "addresses of Pods",
	"CAPSTAN_SERVICE_CIDR":  "addresses of Services",
	"CAPSTAN_ZONE_1":        "zone of the first MachineDeployment",
	"CAPSTAN_ZONE_2":        "zone of the second MachineDeployment",
	"CAPSTAN_ZONE_3":        "zone of the third MachineDeployment",

	"CAPSTAN_CONCURRENCY": "objects of each kind that capstan-manager works on at once",
	"CAPSTAN_HOST_RATE": "how many operations of each kind, such as claims and releases, are allowed in a second " +
		"on all hosts together",
	"CAPSTAN_EACH_HOST_RATE":   "how many of each kind are allowed in a second on one host",
	"CAPSTAN_UNLINKED_TIMEOUT": "how long a host may be claimed without a Cluster before it is marked as left behind",
	"CAPSTAN_METRICS_BIND":     "address of capstan-manager's metrics, such as :8080 to let others read them; 0: none",
	"CAPSTAN_LOG_LEVEL":        "how much capstan-manager logs, 0 to 5",
	"CAPSTAN_WATCH_FILTER":     "value of label `cluster.x-k8s.io/watch-filter` of the objects to work on; empty: all",

	"CAPSTAN_EXTENSION_NAMESPACE": "namespace of the runtime extension, for its ExtensionConfig: the same as " +
		"`--target-namespace`, if you give that",
}
