// Package restore puts a backup back into a running cluster.
//
// [Prepare] finds everything a restore needs, without changing anything: the backup, a connection to the cluster, and
// the hosts with control plane machines. [Decide], a pure function, chooses the host that gets the data. The next
// steps, in order, are [Restore.Data], [Restore.ReplaceOthers] and [Restore.Orphans].
//
// Data stops etcd on all those hosts, replaces the data on one of them and starts it there. The others stay stopped,
// because they would form a second cluster of the same name. If a step fails, etcd runs on all hosts as before, unless
// the error says otherwise. Data can be repeated, also by another process after the first was killed.
//
// ReplaceOthers deletes the machines of the other hosts and waits until their owner has replaced them. Orphans returns
// the names of the machines that are younger than the backup.
//
// [Hosts] is the interface to the hosts. [Directories] implements it for hosts whose files are on this machine.
package restore
