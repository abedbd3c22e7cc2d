// Package addon is the part of the extension that installs add-ons, such as a pod network, in workload clusters and
// keeps them there. [New] creates the part.
//
// Manifests are in ConfigMaps of the management cluster. [Choose] selects those for a Cluster and its Kubernetes
// version and orders their objects: Namespaces and CustomResourceDefinitions first, then by the order annotation of
// each ConfigMap. [Apply] applies them to the workload cluster by server-side apply and removes what was applied
// earlier and is no longer wanted.
//
// An inventory, a ConfigMap in the workload cluster, lists what was applied. Apply writes it before it applies
// anything, so nothing is forgotten if the process dies in between. Apply only removes objects that the inventory lists
// with the same UID: never what existed before, nor what somebody else recreated under the same name. Namespaces and
// definitions are never removed, because that would remove what others have in them.
package addon
