// Package describe says how a cluster is: what it is made of, what it waits for, and what its lifecycle hooks did.
//
// [Read] reads the objects of a cluster and [Tree] makes them one tree of [Node]s. [Write] and [WriteWide] write such a
// tree, also one of another source: package clusterctl makes one of what clusterctl finds on any management cluster.
// [Summarize] is a cluster in one line, and [Find] answers a name that is wrong with those that exist.
//
// [Measure] decides how far a cluster is, [Wait] reports it until all Nodes are Ready, and [WaitDeleted] until the
// cluster is gone.
//
// A [Timeline] has the calls of lifecycle hooks and what they hold back; [Follow] reports both as they come.
//
// Functions return values, call back, or write to a writer that they get. They change nothing in a cluster.
package describe
