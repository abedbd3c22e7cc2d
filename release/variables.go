package release

// variables describes each variable in the repository's files, for docs/flavors.md.
var variables = map[string]string{
	"CLUSTER_NAME":       "name of the Cluster: the argument of `clusterctl generate cluster`",
	"KUBERNETES_VERSION": "Kubernetes version, such as v1.36.3: the value of the flag `--kubernetes-version`",
	"CONTROL_PLANE_MACHINE_COUNT": "number of control plane machines, an odd number: the value of the flag " +
		"`--control-plane-machine-count`",
	"WORKER_MACHINE_COUNT": "number of worker machines (with flavor `ha`, in each zone): the value of the flag " +
		"`--worker-machine-count`",

	"CAPSTAN_ENDPOINT_HOST": "address or name at which clients reach the API server of the cluster; with kube-vip, " +
		"this must be a free address in the hosts' network",
	"CAPSTAN_ENDPOINT_PORT": "port of the API server's endpoint",
	"CAPSTAN_VIP_IMAGE": "image of kube-vip that the hosts can pull; in flavor `topology-owned`, leave this variable " +
		"empty to use an endpoint of your own",
	"CAPSTAN_VIP_INTERFACE": "name of the network interface that gets the virtual address on a host; if empty, the " +
		"interface of the default route",
	"CAPSTAN_POD_CIDR":     "address range of Pods",
	"CAPSTAN_SERVICE_CIDR": "address range of Services",
	"CAPSTAN_ZONE_1":       "zone of the first MachineDeployment",
	"CAPSTAN_ZONE_2":       "zone of the second MachineDeployment",
	"CAPSTAN_ZONE_3":       "zone of the third MachineDeployment",

	"CAPSTAN_CONCURRENCY": "number of objects of each kind that capstan-manager works on at the same time",
	"CAPSTAN_HOST_RATE": "limit on operations per second on all hosts together; it applies to each kind of operation, " +
		"such as claims, separately",
	"CAPSTAN_EACH_HOST_RATE": "limit on operations per second on one host, for each kind of operation; `0.2` allows " +
		"one operation in five seconds",
	"CAPSTAN_UNLINKED_TIMEOUT": "how long the Machine or Cluster of a claimed host may be missing before a condition " +
		"of the host says that it is left behind (reason `LeftBehind`)",
	"CAPSTAN_METRICS_BIND": "address at which capstan-manager serves its metrics; `:8080` lets other computers read " +
		"the metrics, and `0` turns the metrics off",
	"CAPSTAN_LOG_LEVEL": "how much capstan-manager logs, from 0 to 5",
	"CAPSTAN_WATCH_FILTER": "capstan-manager works only on objects whose label `cluster.x-k8s.io/watch-filter` has " +
		"this value; if empty, it works on all objects",

	"CAPSTAN_EXTENSION_NAMESPACE": "namespace of the runtime extension, which its ExtensionConfig names; if you use " +
		"the flag `--target-namespace`, set this variable to the same namespace",
}
