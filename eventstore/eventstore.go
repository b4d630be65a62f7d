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
// If the context has ended before the call, Append and Read return its error, and nothing is recorded. If it ends during an Append,
// the event may or may not have been recorded. Repeat the Append to find out.
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

// Key names a log by Session and Stream. A name is any bytes, may be empty or hold NUL, and is never used twice. A store may keep
// the strings for as long as the log lives.
type Key struct {
	Session, Stream string
	// Backlog marks the log of a session's standalone stream. When room is needed, it may lose its oldest events, read or not.
	// It is never sealed. Callers that only read may leave Backlog out.
	Backlog bool
	// Principal is the user that the session belongs to; "" if none is known. A store may bound what all sessions of one
	// principal hold together. It is the same for all logs of a session, and not part of their names. Callers that only read
	// may leave it out.
	Principal string
}

// Log is one stream. Its owner appends from one goroutine at a time, in sequence; all other methods are safe for concurrent use.
type Log interface {
	// Append records data as event seq, which is 1 or one more than the last. From then on data belongs to the log, and must not
	// be changed by the caller or the store. seal: no event can follow.
	//
	// Repeating the last Append (same seq, bytes and seal) is harmless, also after the event was evicted.
	//
	// Errors:
	//   - ErrFull: there is no room. Nothing was recorded, and the same seq may be used again. A sealing Append is never
	//     refused for want of room.
	//   - ErrSealed: the log is sealed, and this is not a repeat.
	//   - ErrSequence: seq is older than the last one, or is the last one with other contents.
	//   - *BehindError: a gap, because the store has less than the owner wrote. Also for every seq but 1 if the store does not
	//     know the log: it has nothing of it.
	//   - ErrGone: the log was dropped, and the store can prove it.
	//   - ErrFenced: another process owns the session.
	//
	// After any other error, or the end of ctx, the event may or may not have been recorded. The owner goes on without the store
	// and repeats the Append later: it then appends all that the store has missed, in sequence.
	Append(ctx context.Context, seq uint64, data []byte, seal bool) error
	// Read fills buf with the events that follow event after, without waiting, and reports where the log begins and ends. An
	// empty buf asks for the state alone.
	//
	// If st.First > after+1, events were evicted, and buf starts with the oldest one kept. An after at or past the end is not an
	// error. A log that was never appended to, or that the store does not know, reads as empty. A State.Last below what was
	// appended says that the store lost the rest.
	//
	// ErrGone: the log was dropped, and the store can prove it. ErrFenced: another process owns the session.
	//
	// The numbers outlive the events. A sealed log that was evicted reads as sealed with First == Last+1, through every handle
	// from before the eviction, and through new handles while the store still knows the log.
	Read(ctx context.Context, after uint64, buf []Event) (n int, st State, err error)
	// Mark tells how far the client got, so that a store that is short of room knows what to evict first. It is a hint: it never
	// waits, and may be lost, late or repeated. Marks never go back. Numbers past the end count as the end.
	Mark(m Mark)
	// Drop deletes the log and returns its memory. From then on Append and Read return ErrGone through every handle that this
	// store gave out before, used or not. Dropping a log again, or one that was never appended to, is not an error.
	Drop(ctx context.Context) error
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
	// ErrFull says that there is no room for an event.
	ErrFull = errors.New("eventstore: no room")
	// ErrSealed says that the log has ended: nothing can follow its last event.
	ErrSealed = errors.New("eventstore: log sealed")
	// ErrSequence says that an event is older than the last one, or differs from it. The owner has miscounted, which is a
	// programming error.
	ErrSequence = errors.New("eventstore: out of sequence")
	// ErrFenced says that another process owns the session now. A server that gets it ends the session on its side. From then on
	// it appends nothing to the session's logs and drops none of them.
	ErrFenced = errors.New("eventstore: another process owns the session")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("eventstore: store closed")
)

// BehindError says that the store has less of a log than its owner wrote: the engine lost data, or never had it.
type BehindError struct {
	Last uint64 // the last event that the store has; 0: none
}

func (e *BehindError) Error() string {
	return "eventstore: the store has no event after " + strconv.FormatUint(e.Last, 10) + " of the log"
}
