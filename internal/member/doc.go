// Package member keeps a process in a cluster: it joins, renews the lease of the process, and says of other processes whether their sessions
// may be adopted.
//
// # When a process is dead
//
// Each process has a count in the directory that grows with each of its renewals. A process is dead for this one if its count has not changed for
// a whole lease, by the monotonic clock of this process, while the directory has answered all renewals of this process. The time to live of an entry
// proves nothing: a directory that was away may have lost or expired the entries of all processes at once. So when contact is regained, every
// process is given a whole lease again. A process that has left, or was superseded by a newer one at its address, is dead at once.
//
// The lease of this process counts from before its last successful renewal was sent. The others count from when they see the new count, which
// is later. So this process knows that its lease is over before any other can call it dead.
package member
