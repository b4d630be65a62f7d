// Command rejoin calls the tools of MCP servers over Streamable HTTP, and polls: a call goes on where its connection ends.
//
//	rejoin tools  URL                                   what there is to call
//	rejoin call   URL TOOL --arg k=v … --args '{…}'     call one; its result goes to stdout, all else to stderr
//	rejoin resume TOKEN                                 go on with a call that was left
//	rejoin listen URL                                   what the server says outside of calls
//
// # Leaving a call
//
// Ctrl-C (SIGINT, SIGTERM) or --timeout ends the command and not the call: it works on, and the command prints the token that
// resume takes. With --cancel the call is cancelled instead, and so is a call whose server has given no event id: nobody could
// come back for it. A second Ctrl-C kills.
//
// A token is the server's URL, "#", and the token of package client. It is a secret: it holds the session's id, and whoever has
// it may speak as this client. What stands on a command line others may see, so resume also takes "-", for stdin, and a file.
//
// --token-file FILE keeps the newest token in FILE, which only its owner may read. FILE is written, whole or not at all, after each
// message has been printed, and removed when the call has ended: whatever kills the command, "rejoin resume --token-file FILE" goes
// on, and at most the last message is printed twice. FILE.part, beside it, is what is being written. call takes no FILE that exists:
// it would be the token of another call.
//
// # Exit codes
//
//	0  a result; of listen: Ctrl-C or --timeout
//	1  the tool failed (isError), or the server answered with a JSON-RPC error
//	2  usage
//	3  no answer: no connection, a refusal, given up, or nothing left to resume; if resume makes sense, the token is printed
//	4  the call was left, and its token printed
//	5  cancelled or interrupted, with nothing to come back for
//
// # JSON
//
// With --json each line of stdout is an object, whose type is
//
//	message   has method and params of a notification
//	tool      has tool, one of the list
//	result    has result, the last line of a call that ended
//	error     has error, the server's JSON-RPC error: code, message, data
//	left      has token, which resume takes
//	failure   has message, why there is no answer, and token if resume makes sense
//
// # Traces
//
// --trace writes to stderr, one line each, what happens on the wire: the word trace, the seconds since the start, the kind, and
// fields in a fixed order, those that say nothing left out:
//
//	trace +0.012 poll stream=2 id=5f2c1a9b
//
//	start     rejoin, go, os                        versions
//	session   protocol                              a session has been opened
//	post      stream, method                        a message is sent; no method: an answer
//	poll      stream, id                            a stream is asked for, after that event
//	delete                                          the session is ended
//	head      stream, status                        an answer has begun
//	primer    stream, id                            an event id without a message
//	event     stream, method, id, bytes             a message; no method: a response
//	retry     stream, wait                          the server said when to come back
//	close     stream, error                         a connection has ended; no error: cleanly
//	wait      stream, wait                          the next poll comes after that
//
// stream is the id of the request that the stream belongs to; without it, the line is about the session's own stream or about none.
// Waits are in seconds. Event ids are secrets: id is the beginning of the id's SHA-256, enough to see that two are the same;
// --trace-ids writes them out. A value with a blank, a quote or a control character is quoted as in Go. New fields and kinds
// may be added. A trace holds no arguments, results, headers or URLs, so it can be attached to a bug report.
package main
