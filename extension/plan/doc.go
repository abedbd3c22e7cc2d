// Package plan is the part that plans upgrades over several minor versions: ClusterClasses name its handler in
// spec.upgrade.external.generateUpgradePlanExtension, and Cluster API then takes a Cluster from one version of the plan
// to the next.
//
// The versions of a plan are those that the hosts of the Cluster's namespace offer, or those of a setting. Package
// upgradeplan of the Runtime SDK computes it (UH-06). Whether there are enough hosts for a version, the capacity gate
// decides before each step.
package plan
