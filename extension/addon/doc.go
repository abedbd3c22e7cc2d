// Package addon is the part of the extension that keeps what belongs into every workload cluster, such as a network, in
// it. [New] makes the part.
//
// Manifests are in ConfigMaps of the management cluster. [Choose] picks those for a Cluster and its Kubernetes version
// and puts their objects into order: Namespaces and CustomResourceDefinitions first, then by the order that each
// ConfigMap names. [Apply] brings them into the workload cluster with server-side apply, and removes what was applied
// before and is not wanted any more.
//
// What was applied stands in an inventory, a ConfigMap in the workload cluster. It is written before anything is
// applied, so that nothing is lost when the process dies in between, and only what stands in it with the same uid is
// ever removed: not what was there before, not what somebody else has made again under the same name. Namespaces and
// definitions stay: with them would go what others have in them.
package addon
