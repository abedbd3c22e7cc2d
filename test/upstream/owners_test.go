package upstream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

// ownerAssertions are checks of owners by kind.
type ownerAssertions = map[string]func(types.NamespacedName, []metav1.OwnerReference) error

// capstanOwners returns the checks of who owns objects of our kinds. They require the same owners as upstream requires
// for the kinds of its own provider.
func capstanOwners(topology bool) ownerAssertions {
	ref := func(kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind}
	}
	cluster, machine := ref("Cluster"), ref("Machine")
	machine.Controller = ptr.To(true)
	ofCluster := cluster
	if topology {
		ofCluster.Controller = ptr.To(true)
	}
	exactly := func(owner metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
		return func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasExactOwners(owners, owner)
		}
	}
	return ownerAssertions{
		"CapstanCluster":         exactly(ofCluster),
		"CapstanClusterTemplate": exactly(ref("ClusterClass")),
		"CapstanMachine":         exactly(machine),
		"CapstanMachineTemplate": func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(owners, []metav1.OwnerReference{cluster},
				[]metav1.OwnerReference{ref("ClusterClass")})
		},
	}
}

// capstanFinalizers are the finalizers of our kinds.
var capstanFinalizers = map[string]func(types.NamespacedName) []string{
	"CapstanCluster": func(types.NamespacedName) []string {
		return []string{"infrastructure.capstan.dev/capstancluster"}
	},
	"CapstanMachine": func(types.NamespacedName) []string {
		return []string{"infrastructure.capstan.dev/capstanmachine"}
	},
}
