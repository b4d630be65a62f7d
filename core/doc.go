// Package core decides everything about one MCP session over Streamable HTTP, or one task, and performs nothing.
//
// A [Machine] is one session. It knows the session's streams and their readers, the requests in flight, which clients poll and when they
// are due back, and what is kept for how long. It is a plain value without goroutines, locks, clocks, randomness or I/O. Time, identifiers
// and random numbers are arguments, so the same inputs always give the same outputs.
//
// A driver feeds the machine:
//
//	out = m.Step(now, &in, out[:0])
//
// and obeys the outputs in their order. m.Deadline says when the next [Tick] is due. example_driver_test.go is a small driver without HTTP.
//
// Steps of one machine must not overlap. A driver may step again before it has obeyed everything, under three rules:
//
//   - Emit, Reply and Full of one stream are serialised: the next one is stepped when the [Record] of the one before was carried out, or
//     has failed and the failure was reported with Full or Lost. Route tells beforehand which stream an Emit will be recorded on. This
//     keeps sequences gapless although a store may refuse an event.
//   - Gone is reported once for every connection that was named in a Post or Get, also after Refuse and AnswerJSON.
//   - After EndSession the machine answers Post, Get, Close and Adjust with Refuse, Emit and Reply with Discard, and ignores the rest.
//
// # Terms
//
// A stream is an append-only log of messages. A connection is one HTTP response that reads a stream; a stream has at most one reader at a
// time. A request stream belongs to one POST. The standalone stream belongs to the session.
//
// A request stream is undecided until the head of its response is sent: the answer may still become plain JSON. It runs until every
// request in it was answered or cancelled. Then it has ended and is kept for a while. Finally it is dropped: its events are deleted, but
// its numbers are remembered for longer.
//
// A cursor is the event id that a client sends in Last-Event-ID. A client is detached when its connection ends before the stream does and
// it was told when to come back. To poll is to come back with a cursor. A primer is the first event of a connection: it has an id and no
// message. A session is opened by initialize; connections and streams are not called open.
//
// # Another process
//
// A session may go on in another process when its own is lost or lets go of it. [Restore] makes a machine of a [Snapshot], which the driver has
// built of what it finds in its store. Only one machine of a session may be used at a time. The process that has the session is its owner.
//
// Nothing is appended to the logs of an earlier owner, because the store may have lost the end of one, whose numbers clients have seen. So a
// request stream that was not sealed has ended with its owner: what is recorded can be read, and an error follows for each request without a
// response. The standalone stream has a new id. The ids and logs that it had before are older standalone streams.
//
// # Tasks
//
// Version 2026-07-28 has no sessions. There a long call becomes a task (extension io.modelcontextprotocol/tasks), and a [Task] decides about
// it, with Step, outputs and Deadline as above. It knows the state of its call, what the client is asked, when the client has last asked, and how
// long the result is kept. Nothing of a Machine is in it: a task has no streams and no readers.
//
// A question is something that the call asks its client. It waits until the client answers it, the call withdraws it, or the task ends. A
// round is a number of questions that are asked together by a call that stops for them: it goes on when all of them are answered. Round 0 stands
// for questions of a call that goes on by itself. To listen is to be told of each change; a client that does not listen has to ask.
//
// ARCHITECTURE.md has a table of what becomes of a request stream, get.go one of how a GET is answered. Where the code decides by a clause of
// the specification (Streamable HTTP of 2025-11-25, with SEP-1699), a comment names the clause, and testdata has a script for it.
package core
