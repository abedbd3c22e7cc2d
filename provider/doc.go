// Package provider is the infrastructure provider: Setup registers the reconcilers of CapstanCluster, CapstanMachine
// and CapstanHost with a manager.
//
// The inventory is made of CapstanHosts. A CapstanMachine claims one by writing into its spec (package machine).
// Package pool has the inventory in memory, and package placement picks the host. The host's reconciler (package
// host) powers supplied hosts on through a Supplier, gives the agent its identity and clears the claim when the host
// is clean again. A CapstanCluster (package cluster) gets its endpoint from a Balancer or from the user, and its
// failure domains from the zones of the inventory. Package inventory registers local hosts.
//
// Each reconcile is a list of named steps that follows the numbered steps of the contract (IM-.., IC-..); decisions
// are pure functions; a status is written once for each pass, in one patch, and can be rebuilt from specs and the
// world. A pass that fails shows in condition Reconciled (package failure). What keeps an object from going on is a
// step.Obstacle.
package provider
