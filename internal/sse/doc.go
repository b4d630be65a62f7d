// Package sse writes and reads text/event-stream, the format of server-sent
// events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
// It knows only bytes: no HTTP, sessions or JSON.
//
// # Writing
//
// Four functions append to a byte slice and return it, as the built-in append
// does. They keep no reference to their arguments and allocate nothing if dst
// has room.
//
//	AppendEvent    event: message\nid: <id>\ndata: <line>\n\n  a message
//	AppendPrimer   id: <id>\nretry: <ms>\ndata: \n\n           an id without a message
//	AppendRetry    retry: <ms>\n\n                             before a close: when to come back
//	AppendComment  : \n\n                                      a keep-alive
//
// An event with a message is named "message". By the standard that is the same
// as no name, but some deployed clients drop events without a name. Each
// function writes a whole block, so a stream that is cut between two calls is
// cut between two events.
//
// No argument can add a field to an event. Line breaks in data begin a new data
// line of the same event. An id with a control byte is a programmer error,
// because the callers check ids: AppendEvent and AppendPrimer panic before they
// write to dst.
//
// # Reading
//
// A Reader follows the algorithm of the standard: a byte order mark at the
// start is skipped; \n, \r and \r\n end a line; a line that starts with a colon
// is a comment; a line without a colon is a field with an empty value; one
// space after the colon is dropped; field names are case-sensitive and unknown
// ones are ignored, as are an id that holds NUL and a retry that is not made
// of ASCII digits alone (or is empty). Of several id, event or retry fields in
// one block the last one counts; data lines are joined by \n.
//
// An event is returned as soon as the byte that ends its blank line has been
// read; a \r does not wait for the \n that may follow it.
//
// It differs from the algorithm where a client must see more of the stream than
// a web page:
//
//   - Every block with a recognised field is returned, also one without data,
//     which the algorithm would not dispatch. Event.HasData tells them apart. A
//     field that is ignored does not count.
//   - Event.ID is the id field of this block, not the last one of the stream. A
//     client that resumes keeps the last Event.ID with HasID set; if that is
//     empty, there is nothing to resume from.
//   - A retry field is part of its block, and is lost with the block if the
//     stream ends first. The algorithm obeys it at once.
//   - Bytes that are not UTF-8 are passed on as they are, not replaced.
//   - The end of the stream is io.EOF between two blocks and
//     io.ErrUnexpectedEOF inside one. The incomplete event is discarded, as in
//     the algorithm.
//   - An event may not be larger than a limit (ErrTooLarge).
package sse
