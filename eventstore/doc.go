// Package eventstore defines the log of every stream, and keeps logs in memory by default.
//
// A [Store] holds logs. A [Key] names a log by session and stream. A [Log] is the append-only record of one stream: events 1, 2,
// 3 … of opaque bytes, and at the end a seal. Live delivery and replay are the same operation: a [Log.Read] after a position. The
// store knows nothing of JSON-RPC, HTTP, time or clients. It is told how far a client has read ([Log.Mark]), and may use that to
// choose what to evict.
//
// # The life of a log
//
//	Log(key)         returns a handle. Nothing exists yet: Read reports First 1, Last 0.
//	Append 1, 2, …   creates the log and extends it, by one event or several. One goroutine appends, in sequence; any number
//	                 read meanwhile.
//	Append, seal     ends the log. A reader that has reached Last of a sealed log has read all of it.
//	eviction         A store that is short of room removes events from the front, or a sealed log as a whole. The numbers
//	                 stay: First moves, Last and Sealed do not.
//	Restore          makes the log anew from what its owner still has. It is for an engine that has lost data.
//	Drop             deletes the log. Handles from before the drop return ErrGone for ever.
//
// Names are never used twice. So a store need not remember a dropped log, except in the handles of that log.
//
// # Writing a store
//
// The contract stands at the methods of [Store] and [Log]. Package storetest tests each clause. These points are easy to miss:
//
//   - The owner of a log, which is the server that appends to it, chooses the sequence numbers. The store checks them. It records
//     the events whose numbers follow its last one. Numbers that it has already, with the same bytes and seal, are a repeat, and
//     harmless: a remote call whose answer was lost is made again, perhaps with more events behind. A number that leaves a gap is a
//     [BehindError]; anything else is [ErrSequence] or, after a seal, [ErrSealed]. Check and append are one atomic step, for all
//     events of an Append.
//   - Only an Append that begins with event 1 creates a log; it may have no events. An Append of any other number to an unknown log
//     is a [BehindError]: the log was dropped while the event was on its way, or the engine lost its data. Event 1 can come late
//     too, so all handles that were given out before a drop stay dead, even unused ones. A remote store may keep a tombstone for a
//     while, or its client may keep track of its handles.
//   - [ErrGone] needs proof: a drop through this store, or a tombstone. Data of a log that the engine does not know may be lost. A
//     server treats the two cases differently: it ignores dropped data, and tells clients of lost data with an error.
//   - Read never waits. It copies positions, not data, if it can. All readers share Data, which stays valid after eviction and
//     drop: never use its memory again. Clip its capacity. The other way round, the store keeps the bytes that Append is given, but
//     never the slice that they are listed in.
//   - Read returns First, Last and Sealed together with the events, from one atomic step. A reader ends its connection when it sees
//     Sealed and has reached Last. If it could see the seal before the last event, that event would be lost.
//   - A running log (not sealed, not a backlog) never loses an event that the client has not acknowledged. Refuse an Append with
//     [ErrFull] instead; the owner tells the tool. But accept every sealing Append: it carries the response, and the client waits
//     for that.
//   - Contexts and errors are for remote engines. An Append that timed out may have been recorded; the owner repeats it. Methods
//     without a context (Log, Mark) do no I/O in the caller's goroutine and never block.
//   - After an outage the owner appends the events that the store has missed, in sequence, before the next event and perhaps all at
//     once. So a store need not remember an Append that failed. A recorded number never gets another event. If the engine has lost
//     events, the owner gives it what it still has with [Log.Restore].
//   - A store that several processes share fences: it compares [Key].Fence with the owner in the session's record, in the same
//     atomic step as the operation, and returns [ErrFenced] if they differ.
//   - A [Store] that counts what it holds also implements [Accountant]. A store that never waits implements [Instant]. If room can
//     be short, logs implement [Limited]. Without it a client that only reads never acknowledges: when it has filled its share, its
//     messages are refused.
//   - Clients that share a store must not be able to take it from each other. Charge sessions, or principals ([Key].Principal), and
//     evict first from those that hold most. An Append may be urgent ([IsUrgent]): keep a reserve for it.
//
// # Wrapping a store
//
// A type that embeds *[Memory] and changes some methods keeps the other abilities of Memory. It is an [Accountant]. It is [Instant]
// unless it has an Instant method of its own that returns false. A type that embeds a [Store] has only the methods of that
// interface. With
//
//	func (w *wrapper) Unwrap() eventstore.Store { return w.Store }
//
// it counts as an Accountant if the inner store is one. Instant is never looked for inside, because a wrapper may wait where the
// inner store does not: the wrapper answers for itself.
//
// # The memory store
//
// [NewMemory] returns the default store. Its data lives in one process and ends with it. [Memory] says what is evicted first at its
// limits.
package eventstore
