package upstream

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
)

// checkAll returns a function that makes the checks of upstream's quick starts, once the machines exist: owners and
// finalizers come back after they were removed, and nothing is written while a cluster stays unchanged.
func checkAll(topology bool) func(proxy framework.ClusterProxy, namespace, name string) {
	return func(proxy framework.ClusterProxy, namespace, name string) {
		filter := withoutHosts(clusterctlcluster.FilterClusterObjectsWithNameFilter(name))
		owners := []ownerAssertions{
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, capstanOwners(topology),
			framework.KubeadmBootstrapOwnerReferenceAssertions,
			framework.KubeadmControlPlaneOwnerReferenceAssertions(topology), framework.KubernetesReferenceAssertions,
		}
		By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, name, filter, owners...)
		By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, name, filter, owners...)
		By("Checking that finalizers are resilient")
		core := framework.CoreFinalizersAssertionWithLegacyClusters
		if topology {
			core = framework.CoreFinalizersAssertionWithClassyClusters
		}
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, name, filter, core,
			framework.KubeadmControlPlaneFinalizersAssertion, framework.ExpFinalizersAssertion, capstanFinalizers)
		checkStable(proxy, namespace, name)
	}
}

// withoutHosts excludes hosts and the objects that they own. clusterctl moves them with a cluster, but they are
// inventory: a cluster does not own them, and they outlive the cluster.
func withoutHosts(filter clusterctlcluster.GetOwnerGraphFilterFunction) clusterctlcluster.GetOwnerGraphFilterFunction {
	const host = "CapstanHost"
	return func(u unstructured.Unstructured) bool {
		owned := slices.ContainsFunc(
			u.GetOwnerReferences(),
			func(r metav1.OwnerReference) bool { return r.Kind == host },
		)
		return u.GetKind() != host && !owned && filter(u)
	}
}

// checkStable checks that nothing is written while a cluster and its hosts stay unchanged.
func checkStable(proxy framework.ClusterProxy, namespace, name string) {
	By("Checking that resourceVersions are stable")
	framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
		ClusterProxy: proxy, Namespace: namespace,
		OwnerGraphFilterFunction: clusterctlcluster.FilterClusterObjectsWithNameFilter(name),
		WaitToBecomeStable:       config.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
		WaitToRemainStable:       config.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
	})
}
