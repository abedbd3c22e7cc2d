package workload

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// KubeadmControlPlane is the kind of control plane that has Machines with static Pods and an etcd on them.
var KubeadmControlPlane = schema.GroupVersionKind{
	Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane",
}

// HasKubeadm reports whether the control plane of a Cluster is a KubeadmControlPlane.
func HasKubeadm(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.ControlPlaneRef.Kind == KubeadmControlPlane.Kind
}
