// Package core decides everything about one MCP session over Streamable HTTP, and does nothing.
//
// A [Machine] is one session: which streams it has, who reads them, which request is in flight, when a client is primed,
// let go and expected back, what is kept and for how long. It is a pure value: it has no goroutine, lock, clock, randomness
// or I/O. Time, identifiers and random numbers are arguments, so that the same inputs give the same outputs, always.
//
// A driver feeds it:
//
//	out = m.Step(now, &in, out[:0])
//
// and obeys the outputs in their order. m.Deadline says when the next [Tick] is due. Steps of one machine must not overlap;
// obeying may, with three rules:
//
//   - Emit, Reply and Full of one stream are serialised: the next one is stepped when the [Record] of the one before has been
//     carried out (or has failed and was reported by Full or Lost). Route tells beforehand which stream an Emit will be
//     recorded on. This is what keeps sequences gapless although a store may refuse an event.
//   - Every connection that was named in a Post or Get is reported once by Gone, also after Refuse and AnswerJSON.
//   - After EndSession nothing is stepped that could matter: every input is answered with Refuse or Discard.
//
// # Words
//
// A stream is an append-only log. A connection is one HTTP response that reads it, at most one at a time. A request stream
// belongs to one POST; the standalone stream is the session's own. A stream with a POST whose head is not yet sent is
// undecided: its answer may still become plain JSON. A request stream runs until every request in it was answered or
// cancelled; then it is ended and kept for a while, and finally dropped: its numbers are remembered longer than its events.
//
// What becomes of a request stream is a table in ARCHITECTURE.md, what a GET is answered with one in get.go. Clauses of the
// specification (Streamable HTTP of 2025-11-25, with SEP-1699) are named where the code decides by them; testdata has a script
// for each.
package core
