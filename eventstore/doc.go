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
//     [ErrSequence], or [ErrSealed] after a seal. Check and append are one step.
//   - Only event 1 makes a log. An Append of any other number to an unknown one is [ErrGone]: its log was dropped while it was
//     on its way. Event 1 itself may also be late: handles that were given out before a drop stay dead, even unused ones. A
//     remote store may keep a tombstone for a while, or its client may keep track of its handles.
//   - Read never waits. It copies positions, not data, if it can: Data is shared by all readers and stays valid after eviction
//     and drop, so its memory must not be used again. Clip its capacity.
//   - First, Last and Sealed are read together with the events, in one step. A reader that sees Sealed and has got to Last
//     ends its connection; a seal seen before the last event loses that event.
//   - A running log (not sealed, not a backlog) never loses an event that the client has not acknowledged. Rather refuse an
//     Append with [ErrFull]; the owner tells the tool. But take every sealing one: it is the response, and somebody waits.
//   - Contexts and errors are for remote engines. An Append that timed out may have been recorded; the owner repeats it.
//     Methods without a context (Log, Mark, Watch) do no I/O in the caller's goroutine and never block.
//   - A store whose [Store.Shared] is true has readers in other processes. Their drops and appends count, [Log.Watch] offers a
//     hint when one appends, readers poll anyway, and an Append with an older [Key].Epoch than the session has seen is
//     [ErrFenced].
//   - A [Store] that counts what it holds also implements [Accountant].
//
// # The memory store
//
// [NewMemory] returns the default: it lives and dies with its process, and no other sees it. [Memory] says what goes first at
// its limits.
package eventstore
