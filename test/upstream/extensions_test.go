package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
)

var _ = Describe("RuntimeSDKUpgrade", Label("RuntimeSDKUpgrade"), func() {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(ctx, runtimeSDK(func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {}))
})

var _ = Describe("RuntimeSDKUpgradeClassInOtherNamespace", Label("RuntimeSDKUpgradeClassInOtherNamespace"), func() {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(ctx, runtimeSDK(func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
		input.DeployClusterClassInSeparateNamespace = true
		input.ExtensionConfigName = "k8s-upgrade-with-runtimesdk-cross-ns"
	}))
})

var _ = Describe("RuntimeSDKChainedUpgrade", Label("RuntimeSDKChainedUpgrade"), func() {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(ctx, runtimeSDK(func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
		input.DeployClusterClassInSeparateNamespace = true
		input.ExtensionConfigName = "k8s-chained-upgrade-with-runtimesdk-cross-ns"
		input.KubernetesVersionFrom = config.MustGetVariable(e2e.KubernetesVersionChainedUpgradeFrom)
		for _, variable := range []string{
			e2e.KubernetesVersionChainedUpgradeFrom, e2e.KubernetesVersionUpgradeFrom, e2e.KubernetesVersionUpgradeTo,
		} {
			input.KubernetesVersions = append(input.KubernetesVersions, config.MustGetVariable(variable))
		}
	}))
})

// runtimeSDK returns the input that all variants of the upgrade with hooks have in common; the function change adapts
// the input for one variant.
func runtimeSDK(
	change func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput),
) func() e2e.ClusterUpgradeWithRuntimeSDKSpecInput {
	return func() e2e.ClusterUpgradeWithRuntimeSDKSpecInput {
		input := e2e.ClusterUpgradeWithRuntimeSDKSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: ptr.To("topology"),
			ExtensionServiceNamespace: "test-extension-system",
			ExtensionServiceName:      "test-extension-webhook-service",
			PostUpgrade: func(proxy framework.ClusterProxy, namespace, name string) {
				const spec = "k8s-upgrade-with-runtimesdk"
				framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
					ClusterProxy: proxy, Namespace: namespace,
					OwnerGraphFilterFunction: clusterctlcluster.FilterClusterObjectsWithNameFilter(name),
					WaitToBecomeStable:       config.GetIntervals(spec, "wait-resource-versions-become-stable"),
					WaitToRemainStable:       config.GetIntervals(spec, "wait-resource-versions-remain-stable"),
				})
			},
		}
		change(&input)
		return input
	}
}

var _ = Describe("InPlaceUpdate", Label("InPlaceUpdate"), func() {
	e2e.ClusterInPlaceUpdateSpec(ctx, func() e2e.ClusterInPlaceUpdateSpecInput {
		return e2e.ClusterInPlaceUpdateSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: ptr.To("topology-in-place"),
			ExtensionServiceNamespace: "in-place-updater-system",
			ExtensionServiceName:      "in-place-updater-webhook-service",
			ClusterctlVariables: map[string]string{
				"KUBEADM_CONTROL_PLANE_MAX_SURGE": "0", "MD_MAX_SURGE": "1", "MD_MAX_UNAVAILABLE": "1",
			},
		}
	})
})
