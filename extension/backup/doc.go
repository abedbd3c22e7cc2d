// Package backup takes snapshots of the etcd of workload clusters, verifies that each can be restored, and stores them.
// [New] returns the parts of the extension that hold upgrades and deletions until there is a backup.
//
// A snapshot is read through the control plane itself: a port-forward of the cluster's API server to an etcd pod, with
// a client certificate issued by the cluster's etcd CA. Nothing extra runs in the cluster. A snapshot counts only after
// it has been restored into a separate etcd ([Tool.Verify]). If the cluster can still compute it, its hash of all keys
// at that revision must be the same.
//
// [Take] takes one backup and [Store] stores backups. A runner takes those that hooks wait for, and [Replicas] ensures
// that only one process does. Package member puts a backup back on a host.
//
// A snapshot is as secret as the cluster, since it contains all its Secrets. It does not contain the cluster's
// certificate authorities. They are Secrets of the management cluster and are saved with it; [Manifest.Authorities]
// identifies those that belong to a snapshot.
package backup
