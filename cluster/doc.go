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
//	Save       writes what the app wants to have back after a move, with a version that grows.
//	Touch      extends its life.
//	Release    says that its owner has let go. The fence stays until another process adopts.
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
//   - Joining supersedes. There is one entry for each Self, and the highest generation has it. Processes propose their generations,
//     so the directory only compares them, in the step that writes.
//   - Tombstones tell "ended" from "lost". End leaves one even for a session without a record. Without a tombstone a late Put would
//     bring the session back.
//   - Nil and empty states differ.
//   - Generations, counts and versions are exact in a float64, so a script may compare them as its numbers. Epochs need not be: they
//     are only compared for equality, as text, and the caller of Adopt knows the next one. Event numbers that rejoin uses are small,
//     but the exam of stores also tries the highest uint64 in places where it is refused.
//
// Answers get lost, and calls are late:
//
//   - rejoin makes each call again with the same arguments until it is answered, so each must do no harm when it is repeated. A
//     repeated Adopt finds its own fence in the record, and succeeds. A repeated End finds a tombstone.
//   - A call that was given up can take effect after later ones: over several connections calls overtake each other. Generations,
//     counts and versions never go back, Left and Released are never taken back by the fence that set them, and a tombstone is
//     stronger than a Put. A late Append can bring back a log that was dropped. That costs room until the record expires; the
//     name is not used again.
//   - So a client may send large bodies over a connection of their own.
//   - Send nothing for a call whose context has ended: remove it from all queues. And let no client library repeat a write by itself,
//     least of all to another server after a failover. A call that was sent to one server must not reach the next one: an owner that
//     the failover has made lose its adoption may adopt the session again, and then has the same fence as before.
//
// An engine can lose data:
//
//   - An engine that went back (a restart without persistence, a promoted replica that lacks the last writes) shows itself by the
//     counts of the processes: they are lower than what was written, or missing. So counts live where records live and are lost with
//     them.
//   - A process that was not there before the loss has no count that could tell. It looks at Age. Keep for it a key without a TTL that
//     is lost with the data: set it to the engine's time if it is absent. A replica has the key too. So the key must also say in which
//     life of the engine it was set, and is set anew in another life. In Redis the life is master_replid, which a promotion and a
//     restart change, and which INFO tells inside a script. (run_id does not do: it is the same again if the first server is promoted
//     back.) Each Find and Renew looks at the key, in one script that also asks for the time.
//   - The age may be too low, for example after a restart that lost nothing. That costs little: for two leases unknown sessions are
//     answered with 503. But with a directory that always says 0, no session is ever unknown.
//   - Find reads Count and Age when the record was looked up or later, never before. In two steps: first the record.
//   - If parts of an engine can go back apart, as shards do, keep a count and an age in each. Find returns those of the part that has
//     the session, and Renew the lowest Was.
//   - After it went back, owners put their records again, and restore their logs. A Put to an empty place makes the record with the
//     fence that it brings, whatever the epoch is. A session without a record refuses its owner's events (BehindError), so an owner
//     notices even before it looks at counts.
//   - Ask only the server that writes, never a replica: a replica does not know the newest sessions yet. As long as two servers of an
//     engine both take writes, a session can have two owners. Bound that time below a lease (in Redis: min-replicas-to-write and
//     min-replicas-max-lag).
//   - The engine must not evict (in Redis: noeviction). It would evict records and logs, which have a TTL, and no process would notice.
//   - When it is full, it may refuse Put and Save with any error, and Append and Restore with [eventstore.ErrFull]. It must not refuse
//     Join, Renew, Leave, Find, Adopt, Touch, Release, End, Drop, and an Append or Restore that seals (in Redis: the script's flag
//     allow-oom). An engine that refuses renewals stops all processes.
//
// Of the store in a cluster:
//
//   - [eventstore.Key].Principal is empty. The engine is not told who owns a session. So a store can bound what a session holds, and
//     what all hold together, but not what the sessions of one principal hold.
//   - Mark is a hint. A remote store sends the last one together with the next Append of the log, which may then remove what was
//     acknowledged: so acknowledged events leave the engine. The Mark of a log that gets no more events need not be sent. Its events
//     stay until the log is dropped.
//   - Append and Restore get at most 128 events and 1 MiB of data in one call, or one event of any size.
//   - When the life of a record is extended, that of its logs is too, also of parts that are in keys of their own.
//
// # The memory directory
//
// [NewMemory] returns a directory and its store in one, for servers of one process and for tests. What it has ends with the process.
package cluster
