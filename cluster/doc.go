// Package cluster defines the directory through which several processes share one set of sessions, and has one in memory.
//
// A session has one owner: the process that holds it in memory and appends to its logs. A [Directory] keeps two things in an engine
// that all processes reach. For each session there is a [Record]: who owns it, and what another process needs to go on. For each
// process there is a [Member]: where the others reach it, and a count that grows while it lives. The logs are in an
// [eventstore.Store] of the same engine.
//
// The directory knows nothing of HTTP, of clients, or of what a record says about its session. It never decides that an owner is
// dead: processes do, from the counts.
//
// # The life of a record
//
//	Put        makes it. The owner's fence is its incarnation and epoch 1.
//	Save       writes what the app wants to have back after a move.
//	Touch      extends its life.
//	Release    says that its owner has let go. The fence stays until somebody adopts.
//	Adopt      gives it to another owner, with a new fence. From then on the old fence is refused.
//	End        deletes it and its logs, and leaves a tombstone for TombstoneTTL.
//	TTL        deletes both too, without a tombstone: as if they had never been.
//
// # Writing a directory
//
// The contract stands at the methods of [Directory]. Package clustertest tests each clause, for a directory together with its store.
// These points are easy to miss:
//
//   - Fence by both parts. An operation is allowed if incarnation and epoch equal those of the record. A higher epoch is refused as
//     a lower one is: after a failover that lost an adoption, two processes can hold fences with the same epoch, or one that is
//     higher than the record's.
//   - A check and what it guards are one atomic step: one script, one transaction. That goes for the store's Append, Read, Restore
//     and Drop too, so record and logs must be where one step reaches both. What Adopt returns of the logs is their state in the step
//     that changed the fence. An event that the old owner appends later would have a number that the new owner gives to another.
//   - TTLs prove nothing. An engine that was away can expire all entries at once. A TTL only sees to it that nothing stays for ever.
//     So keep an entry of a process for several times its lease. A missing entry is not a dead process.
//   - Answers get lost, so each operation is made again with the same arguments, and must do no harm. A repeated Adopt finds its own
//     fence in the record, and succeeds. A repeated End finds a tombstone.
//   - Operations can also be late: one that was given up and made again may arrive after later ones. Counts never go back, Left and
//     Released are never taken back by the fence that set them, and a tombstone is stronger than a Put.
//   - Joining supersedes. There is one entry for each Self. Join replaces it in one step, whatever it says, and gives a higher
//     generation. Generations stay in order if the engine forgets its entries: derive them from its clock as well.
//   - Tombstones tell "ended" from "lost". End leaves one even for a session without a record. Without a tombstone a late Put would
//     bring the session back.
//   - An engine that went back (a restart without persistence, a promoted replica that lacks the last writes) shows itself by the
//     counts of the processes: they are lower than what was written, or missing. So counts live where records live and are lost with
//     them. If parts of an engine can go back apart, as shards do, keep a count in each, and return the lowest of those that matter.
//   - Find returns the count as it stands when the record was looked up or later, never as it was before.
//   - After it went back, owners put their records again, and restore their logs. A Put to an empty place makes the record with the
//     fence that it brings, whatever the epoch is. A session without a record refuses its owner's events (BehindError), so an owner
//     notices even before it looks at counts.
//   - Nil and empty states differ.
//
// # The memory directory
//
// [NewMemory] returns a directory and its store in one, for servers of one process and for tests. What it has ends with the process.
package cluster
