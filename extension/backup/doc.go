// Package backup takes snapshots of the etcd of workload clusters, verifies that each can be restored, and stores them.
// [New] returns the parts of the extension that hold back upgrades and deletions until there is a backup.
//
// A snapshot is read through the control plane itself: a port-forward of the cluster's API server to an etcd pod, with
// a client certificate issued by the cluster's etcd CA. Nothing extra runs in the cluster. A snapshot becomes a backup
// only after it has been restored into a separate etcd ([Tool.Verify]). The hash of all keys there must be the same as
// the cluster's hash at that revision, if the cluster can still compute that hash.
//
// [Take] takes one backup and [Store] stores backups. A runner takes the backups that hooks wait for, and [Replicas]
// ensures that only one process at a time takes backups of a cluster. Package member puts a backup back on a host.
//
// A snapshot is as secret as the cluster, since it contains all its Secrets. It does not contain the cluster's
// certificate authorities. They are Secrets of the management cluster and are saved with it; [Manifest.Authorities]
// identifies those that belong to a snapshot.
package backup
