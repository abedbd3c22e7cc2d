// Package capacity is the part of the extension that holds back clusters and rollouts for which the inventory has too
// few hosts.
//
// [New] returns the part. At each call, its gate reads a snapshot of a namespace. [Decide] is a pure function of that
// snapshot and explains its decision in numbers.
//
// A free host may already be promised to a cluster that was let through but whose machines have not all claimed their
// hosts. If two clusters are created at once and the inventory suffices for one, only one may pass. A cluster that does
// not fit must not block a smaller one. So Decide considers promises in this order:
//
//  1. clusters that were let through, for the hosts that they have not claimed yet;
//  2. clusters that wait and are older than the one in question, each only if the inventory can hold it after all
//     those before: these would be let through first.
//
// The same snapshot leads to the same decision for every cluster in every process, so several copies of the gate agree.
// The caller marks as Admitted the clusters that its gate has let through but the snapshot does not show yet.
package capacity
