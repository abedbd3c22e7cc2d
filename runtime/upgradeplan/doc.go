// Package upgradeplan handles GenerateUpgradePlan: it plans which versions a Cluster goes through when it is upgraded
// by more than one minor version of Kubernetes (UH-06).
//
// The extension knows which versions are available, because it has images, packages or bundles of them. The order
// follows from Kubernetes' rules: control planes are upgraded one minor version at a time; workers may skip minor
// versions but must stay within three of their control plane.
//
//	server.Handle(hook.GenerateUpgradePlan, "plan", upgradeplan.Generate(func(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
//		return []string{"v1.34.9", "v1.35.4", "v1.36.3"}, nil
//	}))
//
// A ClusterClass names the handler in spec.upgrade.external.generateUpgradePlanExtension.
//
// Ids such as UH-06 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package upgradeplan
