package main

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
)

// The ranges of a cluster's pods if its configuration sets none. They are those of kind.
const (
	defaultPods4 = "10.244.0.0/16"
	defaultPods6 = "fd00:10:244::/56"
)

// withPodSubnet makes kubeadm's configuration of a cluster have ranges of pods. Upstream's kubeadm then leaves Nodes
// without ranges, because a network plugin may know its own. On a local host, pods get addresses only from the range of
// their Node.
func withPodSubnet(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&kubeadmapi.ClusterConfiguration{}, func(object any) {
		cluster := object.(*kubeadmapi.ClusterConfiguration)
		kubeadmapi.SetObjectDefaults_ClusterConfiguration(cluster)
		if cluster.Networking.PodSubnet == "" {
			cluster.Networking.PodSubnet = podSubnet(cluster.Networking.ServiceSubnet)
		}
	})
}

// podSubnet returns a range of pods for each family of the ranges of Services, in their order.
func podSubnet(services string) string {
	var ranges []string
	for text := range strings.SplitSeq(services, ",") {
		service, err := netip.ParsePrefix(text)
		if err != nil {
			continue // kubeadm refuses it
		}
		if service.Addr().Is4() {
			ranges = append(ranges, defaultPods4)
		} else {
			ranges = append(ranges, defaultPods6)
		}
	}
	return strings.Join(ranges, ",")
}
