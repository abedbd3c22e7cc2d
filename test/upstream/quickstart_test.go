package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

// quickStart returns the input that all variants of the quick start have in common; the function change adapts the
// input for one variant.
func quickStart(change func(*e2e.QuickStartSpecInput)) func() e2e.QuickStartSpecInput {
	return func() e2e.QuickStartSpecInput {
		input := e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
		}
		change(&input)
		return input
	}
}

var _ = Describe("QuickStart", Label("QuickStart"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.PostMachinesProvisioned = checkAll(false)
	}))
})

var _ = Describe("QuickStartClusterClass", Label("QuickStartClusterClass"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.Flavor, input.PostMachinesProvisioned = ptr.To("topology"), checkAll(true)
	}))
})

var _ = Describe("QuickStartClassInOtherNamespace", Label("QuickStartClassInOtherNamespace"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.Flavor, input.DeployClusterClassInSeparateNamespace = ptr.To("topology"), true
		input.PostMachinesProvisioned = checkStable
	}))
})

var _ = Describe("QuickStartControlPlaneClass", Label("QuickStartControlPlaneClass"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.Flavor, input.WorkerMachineCount = ptr.To("topology-kcp-only"), ptr.To[int64](0)
	}))
})

var _ = Describe("QuickStartNoWorkers", Label("QuickStartNoWorkers"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.Flavor, input.WorkerMachineCount = ptr.To("topology-no-workers"), ptr.To[int64](0)
	}))
})

var _ = Describe("QuickStartThreeControlPlanes", Label("QuickStartThreeControlPlanes"), func() {
	e2e.QuickStartSpec(ctx, quickStart(func(input *e2e.QuickStartSpecInput) {
		input.Flavor, input.PostMachinesProvisioned = ptr.To("topology"), checkAll(true)
		input.ControlPlaneMachineCount, input.WorkerMachineCount = ptr.To[int64](3), ptr.To[int64](2)
	}))
})
