package core

import "time"

// Out is one thing to do. The comments on [Do] say which fields each output uses. Stream and Index name the stream of every output that has
// one.
type Out struct {
	Do     Do
	Reason Reason
	Seal   bool
	Older  bool
	Conn   ConnID
	// Index is the stream's index in the machine: small, stable from Start to DropLog, then used again. The standalone stream has index 0.
	Index  int32
	Stream StreamID
	Seq    uint64
	Least  uint64
	Last   uint64
	Nonce  uint64
	Dur    time.Duration
	ID     string
}

// Do names an output. Outputs are obeyed in order. The steps that Release and Fail ask for follow when all outputs were obeyed.
type Do uint8

// The outputs, with the fields they use.
const (
	// Start hands the request or batch of the Post to the app. Conn waits for its answer.
	Start Do = iota + 1
	// Attach makes Conn the reader of the stream, starting after Seq. Index -1: nothing is left to read, and Conn gets only the
	// outputs that follow.
	Attach
	// Head sends the head of an SSE response, after a wait of Dur.
	Head
	// Primer sends the priming event. Its id is made of Stream, Seq and Nonce, its retry is Dur. Stream may be an older name of the
	// standalone stream (see Older), which has no Index.
	Primer
	// Comment sends a comment line, in place of a primer, to a client that cannot parse one.
	Comment
	// Record appends the message as event Seq. Seal: it is the last one. The driver wakes the reader after the append. It reports only
	// a failure, by Full or Lost.
	Record
	// Hold keeps the response: it belongs to a batch whose form of answer is undecided.
	Hold
	// Release gives back all held responses: step Reply again for each.
	Release
	// AnswerJSON answers Conn with plain JSON. For a single request that is the response. For a batch it is an array of the held responses
	// and the response of this step, if this step is a Reply (it may be a Cancel). If Expire for Conn came before, those errors are the
	// response, or the rest of the array.
	AnswerJSON
	// End makes Conn write the log up to Seq, then Dur as retry if Dur is positive, and then end. If Seq is 0 or less than what was
	// written, Conn ends at once, on an event boundary. If Least is positive, the time of Conn is over: once it has written up to Least it
	// ends after what it can write at once, and the client comes back for the rest. With Reason Ended, Dur is sent only in that case.
	// Older set: Conn writes what Older named before the log, and what it has written of that counts as written up to Least. Not set:
	// Conn leaves it out. A second End for a connection replaces the first.
	End
	// Refuse answers Conn as Reason demands. Without Conn, the caller's operation has failed.
	Refuse
	// Expire writes to Conn an error response for the request ID with Reason, unless Conn has already written event Seq. The error
	// has the id of event Seq.
	//
	// If Nonce is not 0, the id of the error is made of Stream, Seq and Nonce, like a primer's. Conn writes it as the last thing before it
	// ends, if it has written the log up to Seq by then, and else not at all. (Where Attach had the Index -1, Conn counts as having written
	// up to the Seq of that.) An Expire without a Nonce takes back those with one that Conn has not written.
	Expire
	// Older makes Conn write another log before that of its stream: of the standalone stream Stream that the session had in an earlier
	// process, from after Seq up to Last. Ids are made of Stream. Several of them are written in their order. What is lost of such a log is
	// left out. Written and Gap are about the log of Conn's stream alone. Index -1.
	Older
	// Discard drops the message of an Emit or Reply. Reason.
	Discard
	// CancelApp cancels the context of the request ID of the stream, with Reason as its cause.
	CancelApp
	// Fail answers the request ID of the stream with an error for Reason: step Reply with it. It follows a CancelApp of the same
	// request.
	Fail
	// Strand says that no client can ever read the stream. Server requests that wait for an answer through it never get one.
	Strand
	// Doubt says that the client was detached from the stream and has not come back for it. Until it comes back, no connection of this
	// session is detached. It is for the operator.
	Doubt
	// Yield says that the client was written the stream up to Seq and cannot acknowledge it. When the store needs room, it may drop
	// that part as if it were acknowledged.
	Yield
	// DropLog deletes the stream and its log. Its Index is free from now on.
	DropLog
	// EndSession deletes the session and all of its logs. Reason. It is the last output of a machine, except answers to late inputs.
	EndSession
)

// Reason says why something is refused, discarded, cancelled or ended.
type Reason uint8

// The reasons.
const (
	NoReason     Reason = iota
	Duplicate           // a request with this id is in flight
	TooMany             // the session has as many requests in flight as it may
	Stuck               // too many handlers of the session still run although their requests have ended
	Draining            // the server takes no new work
	Unknown             // no id of this stream was ever issued
	NothingLeft         // the request ended and the client has everything
	Expired             // the events after the cursor were dropped
	NoStandalone        // the standalone stream is off, or the writer cannot stream
	NotResumable        // the client cannot poll, or has no id to come back with
	Ended               // the request has ended
	Unreachable         // no client can ever read the stream
	NoStream            // the request may not stream, and the standalone stream has no reader
	Worthless           // progress of a request that has ended or cannot stream
	StoreFailed         // the store cannot return what it was given
	Cancelled           // by the client
	Abandoned           // the client did not come back
	Overran             // the request ran for longer than MaxRuntime
	Deleted             // by the client
	Idle                // nothing happened for SessionIdleTTL
	OpenFailure         // initialize failed
	Shutdown            // the server stops
	TakenOver           // a newer connection reads the stream
	Moved               // another process owns the session now
	Terminated          // by the app, or by the server's operator
	NoRoom              // neither the event store nor memory had room for the message
	OwnerLost           // the process that ran the request was lost
)
