// Package restore puts a backup back into a running cluster.
//
// [Prepare] finds everything that is needed and changes nothing: the backup, how to reach the cluster, the hosts with
// control plane machines. Which of them gets the data is decided by [Decide], which only looks at what it gets. Then,
// in this order:
//
//   - [Restore.Data] stops etcd on all those hosts, replaces the data on one of them, and starts that one. The others
//     stay stopped: members that ran on would be another cluster of the same name. If a step fails, etcd runs on all
//     hosts as before, unless the error says otherwise. All of it can be repeated, also by a process that comes after
//     one that was killed.
//   - [Restore.ReplaceOthers] deletes the machines of the others, and waits for those that their owner makes.
//   - [Restore.Orphans] names machines that are younger than the backup.
//
// What is done on a host is behind [Hosts]. [Directories] are hosts whose files are on this machine.
package restore
