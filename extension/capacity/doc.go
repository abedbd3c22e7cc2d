// Package capacity is the part of the extension that holds back what the inventory has no hosts for.
//
// [New] makes the part. Its gate reads a snapshot of a namespace at each call. [Decide] only computes: it is a function
// of that snapshot and explains itself in numbers.
//
// A host that is free may be promised already: to a cluster that was let through and whose machines have not all
// claimed their hosts yet. Two clusters that are created at once on an inventory for one must not both pass, and a
// cluster that can't be held must not keep a smaller one waiting. So promises are computed in this order:
//
//  1. clusters that were let through, for the hosts that they have not claimed yet;
//  2. clusters that wait and are older than the one in question, each only if the inventory can hold it after all
//     those before: these would be let through first.
//
// The same snapshot gives the same answer for every cluster in every process, so several copies of the gate agree. What
// one gate has let through and the snapshot does not show yet, its caller marks as Admitted.
package capacity
