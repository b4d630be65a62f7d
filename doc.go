// Package rejoin serves the MCP Streamable HTTP transport from any Go HTTP router, with SSE polling (SEP-1699) done in full.
//
// A stream is an append-only log. A connection is a disposable reader of it. A session owns streams. The tool only appends. So a
// client may lose its connection, or be sent away in the middle of a long call, and gets what it missed when it comes back: each
// event once, in order.
//
//	import stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
//
//	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}})
//	stdadapter.Register(mux, "/mcp", srv)
//
// # The three sides
//
// A [Server] is mounted with an adapter (github.com/rejoin-mcp/rejoin/adapters/stdlib, chi, echo, gin), which copies what its router takes
// back when a request is over. It is no http.Handler, so that it cannot be mounted without one.
//
// An [App] is the MCP server behind the transport: [NewToolApp] of some tools, [NewApp] around a [Handler], or a bridge to an SDK
// (github.com/rejoin-mcp/rejoin/bridge/gosdk, mcpgo). It answers requests through a [Call], and sends through a [Session], which finds the
// stream a message belongs to by its context.
//
// A tool has a [Handle], from [HandleFromContext]: to let its client go, to report progress, to ask the client something. What is not about
// its call goes to the session's standalone stream, with [Session.Notify] and a context of no call.
//
// # What a tool can rely on
//
// Its context carries the values of the request that brought the call, and outlives that request. It ends, with a cause, when the
// client cancels (ErrCancelled), does not come back (ErrAbandoned), ends its session (ErrSessionEnded), when the call runs for too
// long (ErrMaxRuntime), or when the server shuts down (ErrShutdown). A connection that is lost ends nothing.
//
// # What a client can rely on
//
// That of version 2025-11-25 is primed on every stream, told by retry when to come back, and may resume any stream from any event
// id it was given, also when the response is already there, for as long as Policy.Retain says. Older ones are never sent away.
package rejoin
