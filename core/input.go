package core

import (
	"cmp"
	"time"
)

type (
	// StreamID names a stream: random, from the driver, never used twice. The zero value names none.
	StreamID [16]byte
	// ConnID names one HTTP response within its session. Zero names none.
	ConnID uint32
)

// In is one input: a tagged struct, not an interface, so that no Step allocates. The comments on [Op] say which fields count.
type In struct {
	Op     Op
	Flags  Flags
	Reason Reason
	Conn   ConnID
	Rand   uint32 // spreads retries; wanted by every input that can close a connection
	Stream StreamID
	Seq    uint64
	Nonce  uint64        // makes the id of a primer unique, in any process
	ID     string        // JSON-RPC id as the client wrote it; kept
	Key    string        // what ID is compared by; "": ID itself; kept
	Batch  []Request     // instead of ID; not empty; kept, and written to
	Dur    time.Duration // Close: the caller's override of the retry, 0 for none; Post, Get: the connection must end in so long
	Policy *Policy       // copied
	Stale  int           // Post: handlers of the session that have not returned although their requests have ended
}

// Request is one member of a batch.
type Request struct {
	ID   string // as the client wrote it
	Key  string // what ID is compared by: the same for all spellings of one value; "": ID itself
	Ping bool   // it takes no place of MaxInFlight, as long as there are few
	// Seq is the sequence of its response, 0 until that is recorded. The machine writes it.
	Seq   uint64
	state answer
}

// key is what the request is found by.
func (r *Request) key() string { return cmp.Or(r.Key, r.ID) }

func (in *In) key() string { return cmp.Or(in.Key, in.ID) }

// answer says how far the answer to a request has come.
type answer uint8

const (
	awaited answer = iota
	held           // the response was made, and waits for the form of the answer
	settled        // recorded or sent, or there will be none
)

// Op names an input.
type Op uint8

// The inputs, with the fields they use.
const (
	// Tick says that time has passed. Rand.
	Tick Op = iota
	// Opened says that initialize was answered with a result, before that answer is written. ID: the negotiated version.
	// Flags: CanPoll or CannotPoll where that is known, whatever the version promises.
	Opened
	// OpenFailed says that initialize failed or its answer could not be written: no session stays.
	OpenFailed
	// Post is a request, or a batch of them. Stream (new), Conn, ID and Key or Batch, Policy, Nonce, Dur. Stale. Flags: Initialize,
	// NoFlush, Ping.
	Post
	// Get is a GET. Conn, Nonce, Rand, Dur. Flags: HasCursor, and then Stream and Seq; NoFlush.
	Get
	// Emit is a notification or a server request that the app made. Stream: the call it was made in, or zero. Flags: Progress,
	// Ask, Task. Conn, Nonce of the call are known already.
	Emit
	// Reply is the response of a request. Stream, ID: as in its Post.
	Reply
	// Full says that the store had no room for Seq of Stream, which an Emit took: the number is free again. A response is never
	// refused for want of room.
	Full
	// Lost says that the store failed at Seq of Stream, which nobody has read yet. The stream goes on in memory, without ids.
	Lost
	// Healed says that the store has all of Stream again, up to Seq: that event, which nobody has read yet, and those that come have
	// ids again, and so have those that had none when they were written.
	Healed
	// Gap says that a connection cannot read on: what follows Seq in Stream was dropped (Reason Expired) or cannot be read
	// (StoreFailed). Conn, Rand.
	Gap
	// Written says that Stream was written to Conn up to and including Seq; a primer counts with its position.
	Written
	// Gone says that Conn, which served Stream (zero if it was refused), has ended, by whatever cause. What was written to it
	// is reported before.
	Gone
	// Close lets the client of Stream go. Dur, Rand.
	Close
	// Press says that the store is short of room for what the client of Stream has not acknowledged. Conn: who has read most of it, and only
	// if it still does; zero: whoever does. Rand.
	Press
	// Adjust changes the policy of Stream: Policy, where zero fields stay as they are and negative ones are off.
	Adjust
	// Cancel is the client's notifications/cancelled. ID and Key: of the request, in this message's spelling.
	Cancel
	// Touch is any other sign of life of the client: a notification, an answer.
	Touch
	// Delete ends the session. Reason says why: at Terminated, every connection that waits for a response gets an error first. Rand.
	Delete
	// Drain refuses new work from now on. Flags: Final. Rand.
	Drain
	// Stop answers everything that runs with an error, and ends the session as soon as nothing runs and nobody reads. Rand.
	Stop
)

// Flags qualify an input.
type Flags uint16

// The flags.
const (
	HasCursor  Flags = 1 << iota // Get: the client sent Last-Event-ID
	NoFlush                      // Post, Get: the writer cannot flush, so no stream is possible
	Initialize                   // Post: it opens the session
	Progress                     // Emit: a progress notification, worthless once its call has ended
	Ask                          // Emit: a request to the client, worthless where nobody can answer
	Task                         // Emit: the call was task-augmented, so its progress outlives it
	CanPoll                      // Opened: the client polls, whatever its version says
	CannotPoll                   // Opened: it does not
	Final                        // Drain: nothing runs any more, so that standalone streams end whoever reads them
	Ping                         // Post: its one request is a ping, as Request.Ping of a batch
)
