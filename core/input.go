package core

import (
	"cmp"
	"time"
)

type (
	// StreamID names a stream. It is random, comes from the driver and is never used twice. The zero value names no stream.
	StreamID [8]byte
	// ConnID names one HTTP response within its session. Zero names none.
	ConnID uint32
)

// In is one input. It is a tagged struct, not an interface, so that no Step allocates. The comments on [Op] say which fields each input
// uses. A field that is kept is still referred to after the Step.
type In struct {
	Op     Op
	Flags  Flags
	Reason Reason
	Conn   ConnID
	Rand   uint32 // spreads retry times; needed by every input that can end a connection with a retry
	Stream StreamID
	Seq    uint64
	Nonce  uint64        // makes the id of a primer unique across processes
	ID     string        // JSON-RPC id as the client wrote it; kept
	Key    string        // the form of ID that ids are compared by; "" means ID itself; kept
	Batch  []Request     // instead of ID; not empty; kept and written to
	Dur    time.Duration // Close: overrides the retry time, 0: does not; Post, Get: the connection must end within this time, 0: no limit
	Policy *Policy       // copied
	Stale  int           // Post: how many handlers of the session still run although their requests have ended
}

// Request is one member of a batch.
type Request struct {
	ID  string // as the client wrote it
	Key string // the form of ID that ids are compared by: the same for all spellings of one value; "" means ID itself
	// Seq is the sequence of the response, 0 until the response is recorded. The machine writes it.
	Seq   uint64
	Ping  bool // a few pings do not count for MaxInFlight
	state answerState
}

// key is the form of the id that the request is found by.
func (r *Request) key() string { return cmp.Or(r.Key, r.ID) }

func (in *In) key() string { return cmp.Or(in.Key, in.ID) }

// answerState says how far the answer to a request has come.
type answerState uint8

const (
	awaited  answerState = iota
	held                 // the response was made, and waits until the form of the answer is decided
	settled              // recorded or sent, or there will be none
	orphaned             // the process that ran the request was lost: there will be none, and the client is to be told so
)

// Op names an input.
type Op uint8

// The inputs, with the fields they use.
const (
	// Tick says that time has passed. Rand.
	Tick Op = iota
	// Opened says that initialize was answered with a result. It comes before that answer is written. ID: the negotiated version.
	// Flags: CanPoll or CannotPoll if that is known whatever the version says.
	Opened
	// OpenFailed says that initialize failed or that its answer could not be written. The session ends.
	OpenFailed
	// Post is a request or a batch of requests. Stream (a new id), Conn, ID and Key or Batch, Policy, Nonce, Dur, Stale. Flags:
	// Initialize, NoFlush, Ping.
	Post
	// Get is a GET. Conn, Nonce, Rand, Dur. Flags: HasCursor (with Stream and Seq of the cursor, whose Stream was made for this session:
	// the driver vouches for that), OfStandalone, NoFlush.
	Get
	// Emit is a notification or a server request from the app. Stream: the stream of the call it was made in, or zero. Flags: Progress,
	// Ask, Augmented. Conn and Nonce are those of the call's Post.
	Emit
	// Reply is the response to a request. Stream, ID: as in its Post.
	Reply
	// Full says that the store had no room for Seq of Stream, which an Emit took: the number is free again. A response is never
	// refused for want of room.
	Full
	// Lost says that the store failed at Seq of Stream, before any connection read that event. The stream goes on in memory, without ids.
	Lost
	// Healed says that the store has all of Stream again, up to Seq, which no connection has read yet. That event and later ones have ids
	// again, and so have the earlier ones that were written without.
	Healed
	// Gap says that a connection cannot read on: what follows Seq in Stream was dropped (Reason Expired) or cannot be read
	// (StoreFailed). Conn, Nonce, Rand.
	Gap
	// Written says that Stream was written to Conn up to and including Seq. A primer counts with its position.
	Written
	// Gone says that Conn has ended, for whatever cause. Stream: the stream it served, zero if it was refused. What was written to it
	// was reported before.
	Gone
	// Close detaches the client of Stream. Dur, Rand.
	Close
	// Press says that the store is short of room for what the client of Stream has not acknowledged. Conn: the connection that read most
	// of it; only that one is meant. Zero: the current reader. Rand.
	Press
	// Adjust changes the policy of Stream. Policy: zero fields stay as they are, negative ones are off.
	Adjust
	// Cancel is the client's notifications/cancelled. ID and Key: of the request, as this message spells them.
	Cancel
	// Touch is any other sign of life of the client, such as a notification or an answer.
	Touch
	// Delete ends the session for Reason. With Terminated, every connection that waits for a response gets an error first. Rand.
	Delete
	// Drain refuses new work from now on. Flags: Final. Rand.
	Drain
	// HandOver prepares the session for another process. It still takes new work, until AtRest. Flags: LetGo. Rand.
	HandOver
	// Stop answers every running request with an error. The session ends as soon as no request runs and no connection is left. Rand.
	Stop
)

// Flags qualify an input.
type Flags uint16

// The flags.
const (
	HasCursor    Flags = 1 << iota // Get: the client sent Last-Event-ID
	NoFlush                        // Post, Get: the writer cannot flush, so the response cannot stream
	Initialize                     // Post: the request is initialize
	Progress                       // Emit: a progress notification; it is discarded once its call has ended
	Ask                            // Emit: a request to the client; it is discarded if no client can answer
	Augmented                      // Emit: the call was task-augmented, so its progress outlives it
	CanPoll                        // Opened: the client polls, whatever its version says
	CannotPoll                     // Opened: the client does not poll
	Final                          // Drain: no request runs any more, so the standalone stream ends even if it has a reader
	Ping                           // Post: its one request is a ping, as Request.Ping of a batch
	OfStandalone                   // Get: the cursor's stream is or was a standalone stream of this session
	LetGo                          // HandOver: clients that read a stream that runs are detached, if they can come back
)
