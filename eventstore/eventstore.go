package eventstore

import (
	"context"
	"errors"
	"strconv"
)

// Store keeps the logs of all sessions. Safe for concurrent use.
//
// A store may also implement [Accountant], [Instant] and [Wrapper], and its logs [Limited].
//
// A context that has ended by the time of the call makes Append and Read fail with its error, and nothing is recorded. One
// that ends meanwhile leaves open whether an Append was recorded; repeating it finds out.
type Store interface {
	// Log returns the log named by k, which need not exist yet: only its first Append makes it. It does no I/O. All handles
	// of one name are the same log.
	Log(k Key) Log
	// DropSession forgets all logs of a session, as Log.Drop does, and those that handles were given out for but nothing
	// was appended to. Unknown sessions are no error.
	DropSession(ctx context.Context, session string) error
	// Close releases what the store holds. Operations after it fail with ErrClosed; closing again is no error.
	Close() error
}

// Accountant is a Store that can tell what it holds. A server looks for it to fill its statistics, also in the stores that a
// [Wrapper] wraps.
type Accountant interface {
	// Usage returns the bytes that the store charges to its limits, overhead counted, and how many events it has ever
	// evicted for want of room. Events that went with a Drop are not counted.
	Usage() (bytes, evicted int64)
}

// Instant is a Store that may say that its operations never wait: no network, no disk, no lock that is held for long. A server
// then calls it without a deadline, and in the goroutine that asks, which saves a goroutine, a timer and ten allocations a call.
//
// A server asks only the store that it was given, never one that this wraps. A store that embeds *Memory has Memory's method, which
// says yes: where it adds anything that may wait, it must have an Instant method of its own that says no.
type Instant interface {
	Instant() bool
}

// Limited is a Log that can tell when its client should acknowledge what it has read. A server asks after it has written to a client. It
// then lets a client go that can come back, which acknowledges what it has; for others it marks what was written as acknowledged.
type Limited interface {
	// Short reports whether room will soon be missing, and the events of this log that were not acknowledged take a good part of it. It
	// never waits.
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

// Key names a log. Names are any bytes, none and NUL included, and are never used twice. A store may keep the strings for as
// long as the log lives.
type Key struct {
	Session, Stream string
	// Backlog marks the log of a session's standalone stream: it may lose its oldest events when room is needed, read or
	// not, and it is never sealed. Who only reads may leave it out.
	Backlog bool
	// Principal is the user that the session belongs to; "": none is known. A store may bound what the sessions of one principal hold
	// together. It is the same for all logs of a session, and no part of their names. Who only reads may leave it out.
	Principal string
}

// Log is one stream. Its owner appends from one goroutine at a time, in sequence; everything else is concurrent.
type Log interface {
	// Append records data as event seq, which is 1 or one more than the last. The log owns data from then on, and nobody
	// changes it, the store included. seal: nothing follows.
	//
	// Repeating the last Append (same seq, bytes and seal) is harmless, also when the event was evicted since.
	//
	// ErrFull: there is no room, nothing was recorded, and the same seq may be used again. A sealing Append is never
	// refused for want of room. ErrSealed: the log was sealed, and this is no repeat. ErrSequence: an older seq, or the last
	// one again with something else in it. *BehindError: a gap, because the store has less than the owner wrote; so also any
	// seq but 1 on a log that the store does not know, of which it has nothing. ErrGone: the log was dropped, and the store
	// can prove it. ErrFenced: another process owns the session.
	//
	// Any other error, and the end of ctx, leaves open whether the event was recorded. The owner goes on without the store
	// and repeats the Append later: it then brings all that the store has missed, in sequence.
	Append(ctx context.Context, seq uint64, data []byte, seal bool) error
	// Read fills buf with the events that follow after, without waiting, and tells where the log begins and ends.
	// st.First > after+1: some were evicted, and buf starts with the oldest kept. An after at or past the end is no error.
	// An empty buf asks for the state alone. A log that was never appended to, or that the store does not know, is empty.
	// A State.Last below what was appended says that the store lost the rest. ErrGone: the log was dropped, and the store
	// can prove it. ErrFenced: another process owns the session.
	//
	// The numbers outlive the events: a sealed log that was evicted reads as sealed with First == Last+1 through every
	// handle that was there before, and through new ones while the store still knows it.
	Read(ctx context.Context, after uint64, buf []Event) (n int, st State, err error)
	// Mark tells how far the client got, so that a store that is short of room knows what it may evict first. It is a
	// hint: it never waits, it may be lost, late or repeated, and marks never go back. Numbers past the end count as the
	// end.
	Mark(m Mark)
	// Drop forgets the log and returns its memory. From then on Append and Read give ErrGone through every handle that this
	// store gave out before, used or not. Dropping a log again, or one that was never appended to, is no error.
	Drop(ctx context.Context) error
}

// Event is one message. Data is read-only and stays valid and unchanged, whatever becomes of the log.
type Event struct {
	Seq  uint64
	Data []byte
}

// State is where a log stands. First is the oldest event kept; First == Last+1: none. An empty log has First 1, Last 0.
type State struct {
	First, Last uint64
	Sealed      bool
}

// Mark is how far a client got with a log.
type Mark struct {
	// Written is the last event that was written to a connection; it may have been lost on the way.
	Written uint64
	// Acked is the last event that the client is known to have, because it came back with that cursor or a later one.
	// What was acknowledged counts as written.
	Acked uint64
}

// Errors may come wrapped; compare with errors.Is.
var (
	// ErrGone says that the log was dropped. A store needs proof to say so: that the drop came through this handle's store, or
	// something that the drop left behind in the engine, a tombstone. That the engine knows nothing of the log proves nothing:
	// it may have lost its data. That is *BehindError. A server that gets ErrGone of a log that it did not drop takes it for
	// lost data too.
	ErrGone = errors.New("eventstore: log dropped")
	// ErrFull says that there is no room for an event.
	ErrFull = errors.New("eventstore: no room")
	// ErrSealed says that nothing follows the last event of a log.
	ErrSealed = errors.New("eventstore: log sealed")
	// ErrSequence says that an event is older than the last one, or differs from it. The owner lost count: it is a programmer's error.
	ErrSequence = errors.New("eventstore: out of sequence")
	// ErrFenced says that another process owns the session now. A server that gets it ends the session on its side, and appends and
	// drops nothing of it from then on.
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
