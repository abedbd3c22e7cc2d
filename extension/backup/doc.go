// Package backup takes snapshots of the etcd of workload clusters, proves that each can be restored, and keeps them.
// [New] makes the parts of the extension that upgrades and deletions wait for.
//
// A snapshot comes through the control plane itself: a port-forward of the cluster's API server to an etcd pod, with a
// client certificate of the cluster's etcd CA. Nothing has to run in the cluster for it. It counts only after it was
// restored into an etcd of its own ([Tool.Verify]), which then has to have the same hash of all keys at the same
// revision as the cluster.
//
// [Take] is one backup, [Store] keeps them, a runner takes those that hooks wait for, before a cluster is upgraded or
// deleted, and [Replicas] make sure that only one process does. Package member puts a backup back on a host.
//
// What a snapshot holds is as secret as the cluster: all its Secrets are in it. What it does not hold are the
// certificate authorities, which are Secrets of the management cluster and are saved with it; [Manifest.Authorities]
// tells which ones belong to a snapshot.
package backup
