package eventstore

import (
	"context"
	"errors"
)

// Store keeps the logs of all sessions. Safe for concurrent use.
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
	// Shared reports whether another process can read what this one appends.
	Shared() bool
	// Close releases what the store holds. Operations after it fail with ErrClosed; closing again is no error.
	Close() error
}

// Accountant is a Store that can tell what it holds. A server looks for it to fill its statistics.
type Accountant interface {
	// Usage returns the bytes that the store charges to its limits, overhead counted, and how many events it has ever
	// evicted for want of room. Events that went with a Drop are not counted.
	Usage() (bytes, evicted int64)
}

// Key names a log. Names are any bytes, none and NUL included, and are never used twice. A store may keep the strings for as
// long as the log lives.
type Key struct {
	Session, Stream string
	// Backlog marks the log of a session's standalone stream: it may lose its oldest events when room is needed, read or
	// not, and it is never sealed. Who only reads may leave it out.
	Backlog bool
	// Epoch is the owner's fencing token: a store that is shared refuses an Append with a lower epoch than it has seen in
	// that session (ErrFenced). Other stores ignore it.
	Epoch uint64
}

// Log is one stream. Its owner appends from one goroutine at a time, in sequence; everything else is concurrent.
type Log interface {
	// Append records data as event seq, which is 1 or one more than the last. The log owns data from then on, and nobody
	// changes it, the store included. seal: nothing follows.
	//
	// Repeating the last Append (same seq, bytes and seal) is harmless, also when the event was evicted since.
	//
	// ErrFull: there is no room, nothing was recorded, and the same seq may be used again. A sealing Append is never
	// refused for want of room. ErrSealed: the log was sealed, and this is no repeat. ErrSequence: a gap, an older seq, or
	// the last one again with something else in it. ErrGone: the log was dropped and is not created anew. The same goes for
	// any seq but 1 on a log the store does not know, so that a late Append cannot bring half of a log back.
	Append(ctx context.Context, seq uint64, data []byte, seal bool) error
	// Read fills buf with the events that follow after, without waiting, and tells where the log begins and ends.
	// st.First > after+1: some were evicted, and buf starts with the oldest kept. An after at or past the end is no error.
	// An empty buf asks for the state alone. ErrGone: the log was dropped. A log that was never appended to is empty.
	//
	// The numbers outlive the events: a sealed log that was evicted reads as sealed with First == Last+1 through every
	// handle that was there before, and through new ones while the store still knows it.
	Read(ctx context.Context, after uint64, buf []Event) (n int, st State, err error)
	// Mark tells how far the client got, so that a store that is short of room knows what it may evict first. It is a
	// hint: it never waits, it may be lost, late or repeated, and marks never go back. Numbers past the end count as the
	// end.
	Mark(m Mark)
	// Watch offers a value to wake, never waiting, after appends that other processes make, until stop. A hint: it may be
	// lost, late or repeated. Appends of this process need no hint. stop may be called more than once; after it nothing
	// more is offered. A store that is not Shared returns a no-op.
	Watch(wake chan<- struct{}) (stop func())
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
	// ErrGone says that the log was dropped.
	ErrGone = errors.New("eventstore: log dropped")
	// ErrFull says that there is no room for an event.
	ErrFull = errors.New("eventstore: no room")
	// ErrSealed says that nothing follows the last event of a log.
	ErrSealed = errors.New("eventstore: log sealed")
	// ErrSequence says that an event is not the one that comes next. The owner lost count: it is a programmer's error.
	ErrSequence = errors.New("eventstore: out of sequence")
	// ErrFenced says that another process owns the session now.
	ErrFenced = errors.New("eventstore: another process owns the session")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("eventstore: store closed")
)
