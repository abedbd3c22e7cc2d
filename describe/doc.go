// Package describe reports the state of a cluster: its objects, what it waits for, and what its lifecycle hooks did.
//
// [Read] reads the objects of a cluster, and [Tree] arranges them in a tree of [Node]s. [Write] and [WriteWide] write
// such a tree. The tree may have another source: package clusterctl builds one from what clusterctl finds on any
// management cluster. [Summarize] describes a cluster in one line. [Find] gets a Cluster; if the name is wrong, its
// error lists those that exist.
//
// [Measure] returns the progress of a cluster. [Wait] reports the progress until all Nodes are Ready, and [WaitDeleted]
// until the cluster is gone.
//
// A [Timeline] holds the calls of lifecycle hooks and what they block; [Follow] reports both as they happen.
//
// Functions return values, call back or write to a writer. They change nothing in a cluster.
package describe
