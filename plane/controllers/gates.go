package controllers

import (
	"fmt"

	"sigs.k8s.io/cluster-api/feature"
)

// gates are the feature gates of Cluster API that differ from its defaults.
var gates = map[string]bool{
	string(feature.ClusterTopology): true,
	string(feature.RuntimeSDK):      true,
	string(feature.MachinePool):     true,
	string(feature.InPlaceUpdates):  true,
	// One reconcile per object and second adds about 8 s of waiting to the chain of steps that creates a cluster.
	// package readyourwrites takes over the guard against stale caches that goes with it:
	// docs/adr/0005-reconcile-without-rate-limit.md.
	string(feature.ReconcilerRateLimiting): false,
	// The priority queue of controller-runtime 0.24 can lock up while it is shut down (its issue 3538), and the end
	// of the plane would wait for it.
	string(feature.PriorityQueue): false,
}

// openGates sets the feature gates of this process. It must come before any index or reconciler is made: they ask the
// gates only once.
func openGates() error {
	if err := feature.MutableGates.SetFromMap(gates); err != nil {
		return fmt.Errorf("setting Cluster API's feature gates: %w", err)
	}
	return nil
}
