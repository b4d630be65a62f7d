// Command rejoin calls the tools of MCP servers over Streamable HTTP, and polls: a call continues when its connection ends.
//
//	rejoin tools  URL                                   lists the tools
//	rejoin call   URL TOOL --arg k=v … --args '{…}'     calls a tool; its result goes to stdout, all else to stderr
//	rejoin resume TOKEN                                 continues a call that was left
//	rejoin listen URL                                   prints the notifications that belong to no call
//
// # Two eras
//
// The legacy era of the protocol (up to 2025-11-25) has sessions and streams that are polled. The modern era (2026-07-28) has tasks that are
// polled. With --era auto, the default, the command asks the server (server/discover) and takes the modern era if the server has tasks
// there, or has no other era. --era legacy and --era modern leave no choice. resume takes the era from its token.
//
// # Leaving a call
//
// Ctrl-C (SIGINT, SIGTERM) or --timeout ends the command, but not the call: the call runs on at the server, and the command prints the
// token that resume takes. With --cancel the call is cancelled instead. It is also cancelled if its server has given no event id, and in the
// modern era if the call is not a task yet: then it could not be resumed. A second Ctrl-C kills the command.
//
// A token is the server's URL, "#", and the token of package client. It is a secret: it holds the session's or the task's id, with which any
// program can act as this client. Other users may see a command line, so resume also takes "-", for stdin, and a file.
//
// --token-file FILE keeps the newest token in FILE, which only its owner may read. FILE is written, whole or not at all, after each
// message has been printed, and removed when the call has ended. So if the command is killed, "rejoin resume --token-file FILE" continues
// the call, and prints at most the last message twice. FILE.part, beside it, is a token that is being written. call refuses a FILE that
// exists: it may have the token of another call.
//
// # Exit codes
//
//	0  a result; of listen: Ctrl-C or --timeout
//	1  the tool failed (isError), or the server answered with a JSON-RPC error
//	2  usage
//	3  no answer: no connection, a refusal, given up, or nothing left to resume; if resume makes sense, the token is printed
//	4  the call was left, and its token printed
//	5  cancelled or interrupted, and there is no call to resume
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
// --trace writes to stderr what happens on the wire, a line for each event: the word trace, the seconds since the start, the kind, and
// fields in a fixed order. Fields without a value are left out:
//
//	trace +0.012 poll stream=2 id=5f2c1a9b
//
//	start     rejoin, go, os                        versions
//	session   protocol                              the server speaks that version
//	post      stream, method                        a message is sent; no method: it is an answer
//	poll      stream, id                            a stream is asked for, after the event of that id
//	delete                                          the session is ended
//	head      stream, status                        an answer has begun
//	primer    stream, id                            an event id without a message
//	event     stream, method, id, bytes             a message; no method: it is a response
//	retry     stream, wait                          the server said when to come back
//	close     stream, error                         a connection has ended; no error: it ended cleanly
//	wait      stream, wait                          the next poll comes after that time
//	task      stream, id, state                     the server said how the task of that id is
//
// stream is the id of the request that the stream belongs to; what is sent for a task has that of its call. A line without it is about the
// session's own stream, or about none. Waits are in seconds. The ids of events and tasks are secrets: id is the beginning of the id's
// SHA-256, enough to see that two are the same; --trace-ids writes whole ids. A value with a blank, a quote or a control character is quoted
// as in Go. New fields and kinds may be added. A trace holds no arguments, results, headers or URLs, so it can be attached to a bug report.
package main
