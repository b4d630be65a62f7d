package eventstore

import (
	"context"
	"errors"
	"strconv"
)

// Store keeps the logs of all sessions. It is safe for concurrent use.
//
// A store may also implement [Accountant], [Instant] and [Wrapper], and its logs [Limited].
//
// If the context has ended before the call, Append, Restore and Read return its error, and nothing is recorded. If it ends during an
// Append or a Restore, the events may or may not have been recorded. Repeat the operation to find out.
type Store interface {
	// Log returns a handle of the log named k. The log need not exist: only its first Append creates it. Log does no I/O. All
	// handles of one name are the same log.
	Log(k Key) Log
	// DropSession deletes all logs of a session as Log.Drop does, including those that have handles but no events. An unknown
	// session is not an error.
	DropSession(ctx context.Context, session string) error
	// Close releases what the store holds. From then on all operations that can fail return ErrClosed, except Close itself:
	// closing again is not an error.
	Close() error
}

// Accountant is a Store that reports what it holds. A server uses it for its statistics. It also finds an Accountant inside a
// [Wrapper].
type Accountant interface {
	// Usage returns the bytes charged to the store's limits, overhead included, and how many events the store has ever
	// evicted for want of room. Events deleted by a Drop are not counted.
	Usage() (bytes, evicted int64)
}

// Instant is a Store that may declare that its operations never wait: no network, no disk, no lock that is held for long. A server
// then calls it without a deadline and in the calling goroutine, which saves a goroutine, a timer and ten allocations for each call.
//
// A server asks only the store that it was given, never a store inside a [Wrapper]. A type that embeds *Memory has Memory's method,
// which returns true. If the type adds anything that may wait, it needs an Instant method of its own that returns false.
type Instant interface {
	Instant() bool
}

// Limited is a Log that reports when its client should acknowledge what it has read. A server asks after it has written to a client.
// If a client can come back, the server then closes its connection: by coming back the client acknowledges what it has. For other
// clients the server marks what was written as acknowledged.
type Limited interface {
	// Short reports whether room will soon be missing while this log's unacknowledged events take a good part of it. It never
	// waits.
	Short() bool
}

// Wrapper is a Store around another one.
type Wrapper interface {
	Unwrap() Store
}

// AccountantOf returns the first Accountant among s and the stores that it wraps, or nil.
func AccountantOf(s Store) Accountant {
	for s != nil {
		if a, ok := s.(Accountant); ok {
			return a
		}
		w, ok := s.(Wrapper)
		if !ok {
			return nil
		}
		s = w.Unwrap()
	}
	return nil
}

// Fence names one owner of a session: one run of one process. Two fences are the same owner only if both parts are equal. The zero
// Fence is that of a session in a store that no other process uses.
type Fence struct {
	Incarnation string // one run of one process
	Epoch       uint64 // how often the session has changed hands; the first owner has 1
}

// Key names a log by Session and Stream. A name is any bytes, may be empty or hold NUL, and is never used twice. The other fields are
// not part of the name. A store may keep the strings for as long as the log lives.
type Key struct {
	Session, Stream string
	// Backlog marks the log of a session's standalone stream. When room is needed, it may lose its oldest events, read or not.
	// It is never sealed. Callers that only read may leave Backlog out.
	Backlog bool
	// Principal is the user that the session belongs to; "" if none is known. A store may bound what all sessions of one
	// principal hold together. It is the same for all logs of a session. Callers that only read may leave it out.
	Principal string
	// Fence is the owner in whose name the handle is used. A store that several processes share compares it with the owner in the
	// session's record. A store that is not shared ignores it. A reader that leaves it out reads without a check of the owner.
	Fence Fence
	// About describes the stream to the next owner of its session. A shared store keeps it with the log from the creation of the log
	// on. It is opaque, and the same for all handles of the owner. Callers that only read may leave it out.
	About string
}

// Log is one stream. Its owner calls Append and Restore from one goroutine at a time; all other methods are safe for concurrent use.
//
// In a store that several processes share, the session has a record, which names its owner. Append, Restore, Drop, and Read through a
// handle whose Key has a Fence, return ErrFenced unless both parts of the handle's Fence are equal to the record's: a fence with a
// higher epoch is fenced too. If the store has no record of the session, Append, Restore, and Read through such a handle return a
// *BehindError with Last 0, whatever the numbers are: the engine has lost the session.
type Log interface {
	// Append records events as the events first, first+1, … of the log: all of them or none. The first event of a log is 1. seal: no
	// event can follow the last of them. From then on the bytes of the events belong to the log, and must not be changed by the
	// caller or the store. The slice events itself is the caller's again when Append returns.
	//
	// Events that the log has already, by their numbers, are not recorded again; those after them are. So it is harmless to repeat
	// an Append, alone or with more events behind it. The store compares at least the last number that both have. An event that
	// was evicted counts as equal.
	//
	// An Append without events, which must not seal, begins the log: it makes sure that the log exists. It changes nothing if the
	// log exists and has all events before first.
	//
	// rejoin gives at most 128 events and at most 1 MiB of data in one call, or one event of any size.
	//
	// Errors:
	//   - ErrFull: there is no room. Nothing was recorded, and the same numbers may be used again. A sealing Append is never
	//     refused for want of room.
	//   - ErrSealed: the log is sealed, and this is not a repeat. A repeat does not go beyond the last event, and seals if and
	//     only if it ends there.
	//   - ErrSequence: an event that the log has already differs, or was not sealed and is to be sealed now. Also first is 0, or the
	//     Append seals without an event.
	//   - *BehindError: a gap, because the store has less than the owner wrote. Also for every first but 1 if the store does not
	//     know the log: it has nothing of it.
	//   - ErrGone: the log was dropped, and the store can prove it.
	//   - ErrFenced: another process owns the session.
	//
	// After any other error, or the end of ctx, the events may or may not have been recorded, all or none. The owner goes on without
	// the store and repeats the Append later: it then appends all that the store has missed.
	Append(ctx context.Context, first uint64, events [][]byte, seal bool) error
	// Read fills buf with the events that follow event after, without waiting, and reports where the log begins and ends. An
	// empty buf asks for the state alone. If maxBytes is positive, Read stops before the event with which the data of the events
	// would come to more than maxBytes bytes. But it returns at least one event, whatever its size.
	//
	// If st.First > after+1, events were evicted, and buf starts with the oldest one kept. An after at or past the end is not an
	// error. A log that was never appended to, or that the store does not know, reads as empty. A State.Last below what was
	// appended says that the store lost the rest.
	//
	// ErrGone: the log was dropped, and the store can prove it. ErrFenced: another process owns the session.
	//
	// The numbers outlive the events. A sealed log that was evicted reads as sealed with First == Last+1, through every handle
	// from before the eviction, and through new handles while the store still knows the log.
	Read(ctx context.Context, after uint64, buf []Event, maxBytes int) (n int, st State, err error)
	// Mark tells how far the client got, so that a store that is short of room knows what to evict first. It is a hint: it never
	// waits, and may be lost, late or repeated. Marks never go back. Numbers past the end count as the end.
	Mark(m Mark)
	// Drop deletes the log and returns its memory. From then on Append, Read and Restore return ErrGone through every handle that
	// this store gave out before, used or not. Dropping a log again, or one that was never appended to, is not an error.
	Drop(ctx context.Context) error
	// Restore makes the log anew, in one step: with exactly these events, which are first, first+1, … The log then begins with first,
	// also if there are no events; its last event is first-1 then. With it the owner gives an engine that has lost data what the
	// owner still has. What the log had before is gone from it, but stays valid for readers that have it. seal says that the log has
	// ended with the last event, or with event first-1. Data and the slice events belong to log and caller as for Append.
	//
	// rejoin gives at most 128 events and at most 1 MiB of data in one call, or one event of any size. What does not fit follows with
	// Append.
	//
	// It is harmless to repeat a Restore. If the log is sealed, has the same last event, and seal is set, nothing was lost, and
	// Restore changes nothing.
	//
	// Errors are those of Append, except that no log is unknown and there is no gap:
	//   - ErrFull: there is no room, and the log is as it was. A sealing Restore is never refused for want of room.
	//   - ErrSequence: the log has events after the last one given, or is sealed, and this is not a repeat. Also first is 0, or the
	//     log would be sealed without ever having had an event.
	//   - *BehindError: only if the store has no record of the session.
	//   - ErrGone, ErrFenced.
	//
	// After any other error, or the end of ctx, the log is either as it was or restored. The owner repeats the Restore later.
	Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error
}

// Event is one message. Data is read-only. It stays valid and unchanged after eviction, Drop and Close.
type Event struct {
	Seq  uint64
	Data []byte
}

// State is where a log begins and ends. First is the oldest event kept; First == Last+1 if none is. An empty log has First 1,
// Last 0.
type State struct {
	First, Last uint64
	Sealed      bool
}

// Mark is how far a client got with a log.
type Mark struct {
	// Written is the last event that was written to a connection. The event may have been lost on its way.
	Written uint64
	// Acked is the last event that the client is known to have, because it came back with that cursor or a later one. What was
	// acknowledged also counts as written.
	Acked uint64
}

// Errors may come wrapped; compare with errors.Is.
var (
	// ErrGone says that the log was dropped. A store needs proof to say so: the drop came through the store of this handle, or left
	// a tombstone in the engine. If the engine does not know the log, that proves nothing, because the engine may have lost its
	// data: return *BehindError then. A server that gets ErrGone for a log that it did not drop treats it as lost data too.
	ErrGone = errors.New("eventstore: log dropped")
	// ErrFull says that there is no room for the events.
	ErrFull = errors.New("eventstore: no room")
	// ErrSealed says that the log has ended: nothing can follow its last event.
	ErrSealed = errors.New("eventstore: log sealed")
	// ErrSequence says that the log has an event of that number already, which differs, or has more events than are to be restored.
	// The owner has miscounted, which is a programming error.
	ErrSequence = errors.New("eventstore: out of sequence")
	// ErrFenced says that another process owns the session now. A server that gets it ends the session on its side. From then on
	// it appends nothing to the session's logs and drops none of them.
	ErrFenced = errors.New("eventstore: another process owns the session")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("eventstore: store closed")
)

// BehindError says that the store has less of a log than its owner wrote: the engine lost data, or never had it. Last is 0 also if the
// engine has lost the whole session.
type BehindError struct {
	Last uint64 // the last event that the store has; 0: none
}

func (e *BehindError) Error() string {
	return "eventstore: the store has no event after " + strconv.FormatUint(e.Last, 10) + " of the log"
}
