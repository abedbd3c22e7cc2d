// Package upgradeplan answers GenerateUpgradePlan: by which versions a Cluster gets from one version of Kubernetes to
// another that is more than one minor version away (UH-06).
//
// An extension knows which versions there are, because there are images, packages or bundles of them. The order follows
// from Kubernetes' rules: control planes go minor by minor, workers may skip minors but stay within three of their
// control plane.
//
//	server.Handle(hook.GenerateUpgradePlan, "plan", upgradeplan.Generate(func(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
//		return []string{"v1.34.9", "v1.35.4", "v1.36.3"}, nil
//	}))
//
// A ClusterClass names the handler in spec.upgrade.external.generateUpgradePlanExtension.
package upgradeplan
