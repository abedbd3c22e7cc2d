package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

var _ = Describe("MachineDeploymentScale", Label("MachineDeploymentScale"), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
		}
	})
})

var _ = Describe("MachineDeploymentRemediation", Label("MachineDeploymentRemediation"), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
		}
	})
})

var _ = Describe("RolloutWithTaints", Label("RolloutWithTaints"), func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: "kcp-md-taints",
		}
	})
})

var _ = Describe("KCPAdoption", Label("KCPAdoption"), func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
		}
	})
})

var _ = Describe("KCPRemediation", Label("KCPRemediation"), func() {
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
		}
	})
})

var _ = Describe("KCPInfraAdoption", Label("KCPInfraAdoption"), func() {
	e2e.KCPInfraAdoptionSpec(ctx, func() e2e.KCPInfraAdoptionSpecInput {
		return e2e.KCPInfraAdoptionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: ptr.To("topology"),
		}
	})
})
