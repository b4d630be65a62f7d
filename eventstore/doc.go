// Package eventstore defines the log of every stream, and keeps it in memory by default.
//
// A [Store] holds logs, named by session and stream ([Key]). A [Log] is the append-only record of one stream: events 1, 2,
// 3 … of opaque bytes, and in the end a seal. Live delivery and replay are the same thing, a [Log.Read] after a position. The
// store knows nothing of JSON-RPC, HTTP, time or clients; it is told how far a client got ([Log.Mark]) and may use that when
// it is short of room.
//
// # The life of a log
//
//	Log(key)         a handle. Nothing exists yet; Read finds First 1, Last 0.
//	Append 1, 2, …   the log exists. One goroutine appends, in sequence; any number read meanwhile.
//	Append, seal     nothing follows. Who has read up to Last of a sealed log has read it all.
//	eviction         a store that is short of room takes events from the front, or a sealed log whole. The numbers stay:
//	                 First moves, Last and Sealed do not.
//	Drop             the log is forgotten. Whoever has an old handle gets ErrGone, for ever.
//
// Names are never used twice, so nothing has to be remembered of a log that was dropped, except by its handles.
//
// # Writing a store
//
// The contract stands at the methods of [Store] and [Log]; package storetest asks for each clause. What is easily missed:
//
//   - Sequence numbers come from the owner. The store checks them: the next one is appended, the last one with the same bytes
//     and seal is a repeat and harmless (a remote call whose answer was lost is made again), everything else is
//     [BehindError] where it leaves a gap, [ErrSequence] or, after a seal, [ErrSealed]. Check and append are one step.
//   - Only event 1 makes a log. An Append of any other number to an unknown one is a [BehindError]: its log was dropped while it
//     was on its way, or the engine lost its data. Event 1 itself may also be late: handles that were given out before a drop
//     stay dead, even unused ones. A remote store may keep a tombstone for a while, or its client may keep track of its handles.
//   - [ErrGone] needs proof: a drop through this store, or a tombstone. A log that the engine does not know may be lost data, and
//     a server treats the two differently: what was dropped is missed by nobody, what was lost is an error that clients are told.
//   - Read never waits. It copies positions, not data, if it can: Data is shared by all readers and stays valid after eviction
//     and drop, so its memory must not be used again. Clip its capacity.
//   - First, Last and Sealed are read together with the events, in one step. A reader that sees Sealed and has got to Last
//     ends its connection; a seal seen before the last event loses that event.
//   - A running log (not sealed, not a backlog) never loses an event that the client has not acknowledged. Rather refuse an
//     Append with [ErrFull]; the owner tells the tool. But take every sealing one: it is the response, and somebody waits.
//   - Contexts and errors are for remote engines. An Append that timed out may have been recorded; the owner repeats it.
//     Methods without a context (Log, Mark) do no I/O in the caller's goroutine and never block.
//   - After an outage the owner brings the events that the store has missed, in sequence and perhaps all at once, before the next
//     one. So nothing has to be remembered of an Append that failed, and a number that was recorded never gets another event.
//   - A store that learns that another process owns a session says [ErrFenced], to every operation on that session.
//   - A [Store] that counts what it holds also implements [Accountant]; one that never waits, [Instant]. Its logs implement [Limited] where
//     room can be short: otherwise a client that only reads is refused when it has filled its share, and acknowledges nothing.
//   - Who shares a store should not take it from others: weigh sessions, or principals ([Key].Principal), and let those that hold most give
//     first. An Append may be urgent ([IsUrgent]): keep a reserve for those.
//
// # Wrapping a store
//
// A type that embeds *[Memory] and changes some methods keeps the others' abilities: it is an [Accountant], and it is [Instant]
// unless it has a method of that name which says otherwise. One that embeds a [Store] has only what that interface names: with
//
//	func (w *wrapper) Unwrap() eventstore.Store { return w.Store }
//
// it is found to be an Accountant if the inner store is one. Instant is never looked for inside, since a wrapper may wait where
// the inner store does not; the wrapper answers for itself.
//
// # The memory store
//
// [NewMemory] returns the default: it lives and dies with its process, and no other sees it. [Memory] says what goes first at
// its limits.
package eventstore
