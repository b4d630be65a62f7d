package core

import "time"

// Out is one thing to do. The comments on [Do] say which fields count; Stream and Index name the stream of every output that
// has one.
type Out struct {
	Do     Do
	Reason Reason
	Seal   bool
	Conn   ConnID
	// Index is the place of the stream in the machine: small, stable from Start to DropLog, then used again. The standalone
	// stream has index 0.
	Index  int32
	Stream StreamID
	Seq    uint64
	Least  uint64
	Nonce  uint64
	Dur    time.Duration
	ID     string
}

// Do names an output. Obey them in order. What Release and Fail ask for is stepped when the rest has been obeyed.
type Do uint8

// The outputs, with the fields they use.
const (
	// Start hands the request (or batch) of the Post to the app. Conn waits for its answer.
	Start Do = iota + 1
	// Attach makes Conn the reader of the stream, from after Seq. Index -1: there is nothing left to read, and all that Conn
	// gets are the outputs that follow.
	Attach
	// Head sends the head of an SSE response, after waiting Dur.
	Head
	// Primer sends the priming event with the id made of Stream, Seq and Nonce. Dur: the retry it carries.
	Primer
	// Comment sends a comment line in place of a primer, to a client that would choke on one.
	Comment
	// Record appends the message as Seq. Seal: nothing follows. The reader is woken when the append is done. Report failure
	// only, by Full or Lost.
	Record
	// Hold keeps the response, which is one of a batch whose form is not decided.
	Hold
	// Release gives back all responses that are held: step Reply for each again.
	Release
	// AnswerJSON answers Conn with the response as plain JSON; for a batch, with an array of what was held and the response, if
	// it was one that decided (it may have been a Cancel). Where Expire for Conn came before, those errors are the response, or the
	// rest of the array.
	AnswerJSON
	// End makes Conn write the log up to Seq, then Dur as retry if it is positive, then end. Seq 0, or less than what was
	// written: end at once, on an event boundary. Least, if it is positive: its time is over, so a Conn that has written up to Least
	// ends after what it can write at once, and the client comes back for the rest; with Reason Ended, only then with Dur. A second
	// End for a connection replaces the first.
	End
	// Refuse answers Conn as the reason demands. Without Conn the caller's operation failed.
	Refuse
	// Expire writes to Conn an error response for the request ID, unless it has written an event of number Seq already. Reason. It has
	// the id of event Seq; with a Nonce, which is not 0, an id like a primer's, made of Stream, Seq and Nonce.
	Expire
	// Discard says that the message of an Emit or Reply goes nowhere. Reason.
	Discard
	// CancelApp cancels the context of the request ID of the stream, with Reason as its cause.
	CancelApp
	// Fail answers the request ID of the stream with an error for Reason: step Reply with it. It follows a CancelApp of the same
	// request.
	Fail
	// Strand says that no client can ever read the stream: what waits for an answer through it never gets one.
	Strand
	// Doubt says that the client was let go from the stream and has not come back for it. Until it does, nobody is let go in this
	// session. It is for the operator.
	Doubt
	// Yield says that the client has been served the stream up to Seq and need not acknowledge it: the store may give that up when it needs
	// room, as if it were acknowledged.
	Yield
	// DropLog forgets the stream and its log. Its Index is free from now on.
	DropLog
	// EndSession forgets the session and all of its logs. Reason. It is the last output of a machine.
	EndSession
)

// Reason says why something is refused, discarded, cancelled or ended.
type Reason uint8

// The reasons.
const (
	NoReason     Reason = iota
	Duplicate           // a request with this id is in flight
	TooMany             // as many requests are in flight as the session may have
	Stuck               // as many handlers as the session may have work on, although their requests have ended
	Draining            // the server takes no new work
	Unknown             // the session never issued this cursor
	NothingLeft         // the request ended and the client has everything
	Expired             // the events after the cursor were dropped
	NoStandalone        // the standalone stream is off, or the writer cannot stream
	NotResumable        // the client cannot poll, or has no id to come back with
	Ended               // the request has ended
	Unreachable         // no client can ever read the stream
	NoStream            // the request may not stream, and nobody reads the standalone stream
	Worthless           // progress of a request that has ended or cannot stream
	StoreFailed         // the store cannot give back what it was given
	Cancelled           // by the client
	Abandoned           // the client did not come back
	Overran             // MaxRuntime
	Deleted             // by the client
	Idle                // SessionIdleTTL
	OpenFailure         // initialize failed
	Shutdown            // the server stops
	TakenOver           // a newer connection reads the stream
	Moved               // another process owns the session now
	Terminated          // by the app, or by the server's operator
)
