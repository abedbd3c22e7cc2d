// Package backup takes snapshots of the etcd of workload clusters, proves that each can be restored, and keeps them.
//
// A snapshot comes through the control plane itself: a port-forward of the cluster's API server to an etcd pod, with a client certificate
// of the cluster's etcd CA. Nothing has to run in the cluster for it. It counts only after it was restored into an etcd
// of its own ([Tool.Verify]), which then has to have the same hash of all keys at the same revision as the cluster.
//
// [Take] is one backup, [Store] keeps them, [Backup] has handlers that take one before a cluster is upgraded or deleted; package extension
// does not register them yet. Package member puts one back on a host.
//
// What a snapshot holds is as secret as the cluster: all its Secrets are in it. What it does not hold are the certificate
// authorities, which are Secrets of the management cluster and are saved with it; [Manifest.Authorities] tells which ones belong to a snapshot.
package backup
