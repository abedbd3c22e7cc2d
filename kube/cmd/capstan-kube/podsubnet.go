package main

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
)

// The ranges of a cluster's pods if its configuration sets none. kind uses the same ranges.
const (
	defaultPods4 = "10.244.0.0/16"
	defaultPods6 = "fd00:10:244::/56"
)

// withPodSubnet adds pod ranges to a cluster's kubeadm configuration if the configuration sets none. Upstream's kubeadm
// leaves the Nodes of such a cluster without ranges, because a network plugin may have its own. On a local host, pods
// get addresses only from the range of their Node.
func withPodSubnet(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&kubeadmapi.ClusterConfiguration{}, func(object any) {
		cluster := object.(*kubeadmapi.ClusterConfiguration)
		kubeadmapi.SetObjectDefaults_ClusterConfiguration(cluster)
		if cluster.Networking.PodSubnet == "" {
			cluster.Networking.PodSubnet = podSubnet(cluster.Networking.ServiceSubnet)
		}
	})
}

// podSubnet returns a pod range for each address family of the Service ranges, in the same order.
func podSubnet(services string) string {
	var ranges []string
	for text := range strings.SplitSeq(services, ",") {
		service, err := netip.ParsePrefix(text)
		if err != nil {
			continue // kubeadm refuses this range
		}
		if service.Addr().Is4() {
			ranges = append(ranges, defaultPods4)
		} else {
			ranges = append(ranges, defaultPods6)
		}
	}
	return strings.Join(ranges, ",")
}
