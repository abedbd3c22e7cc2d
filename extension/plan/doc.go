// Package plan is the part that plans upgrades over several minor versions. A ClusterClass names its handler in
// spec.upgrade.external.generateUpgradePlanExtension. Cluster API then upgrades a Cluster from one version of the plan
// to the next.
//
// A plan consists of the versions that the hosts of the Cluster's namespace offer, or those in a setting. Package
// upgradeplan of the Runtime SDK computes it (rule UH-06 of the hook contract). Before each step, the capacity gate
// decides whether there are enough hosts for its version.
package plan
