// Package rejoin serves the MCP Streamable HTTP transport behind any Go HTTP router, including all of SSE polling (SEP-1699).
//
// A stream is an append-only log of messages. A connection is one HTTP response that reads a stream. A session owns streams. A tool
// only appends to them. So a client may lose its connection, or be disconnected in the middle of a long call. When it comes back it gets
// what it missed: each event once, in order.
//
// To disconnect a client is to tell it when to come back (the SSE field retry) and to end its response. To poll is to come back, with a
// GET that names the last event the client has.
//
//	import stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
//
//	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}})
//	stdadapter.Register(mux, "/mcp", srv)
//
// # The parts
//
// A [Server] is mounted with an adapter (github.com/rejoin-mcp/rejoin/adapters/stdlib, chi, echo, gin). Routers reuse the objects in a
// request's context, and a tool may outlive its request, so an adapter replaces those objects by copies. That is why Server has no
// ServeHTTP method.
//
// An [App] is the MCP server behind the transport: [NewToolApp] of some tools, [NewApp] around a [Handler], or a bridge to an SDK
// (github.com/rejoin-mcp/rejoin/bridge/gosdk, mcpgo). It answers each request through a [Call]. It sends messages through a [Session],
// which uses the context to find the stream that a message belongs to.
//
// A tool gets a [Handle] from [HandleFromContext]. With it the tool disconnects its client, reports progress and asks the client
// questions. A message that does not belong to the call goes to the session's standalone stream: send it with [Session.Notify] and a
// context that belongs to no call, such as context.Background().
//
// # What a tool can rely on
//
// The context of a tool carries the values of the request that brought the call, and outlives that request. It ends with a cause when
// the client cancels the call ([ErrCancelled]), does not come back ([ErrAbandoned]) or ends its session ([ErrSessionEnded]), when the
// call runs for too long ([ErrMaxRuntime]), and when the server shuts down ([ErrShutdown]). A lost connection does not end it, except in
// version 2026-07-28 before the call is a task.
//
// # What a client can rely on
//
// A client that negotiated version 2025-11-25 gets an event id at the start of every stream and is told when to come back. It may
// resume any stream from any event id it was given, also when the response is already recorded, for as long as Policy.Retain says.
// Clients of older versions are never disconnected, unless Config.CanPoll says that they poll.
//
// Version 2026-07-28 has no sessions and no polling. A client of it that declares the extension io.modelcontextprotocol/tasks gets a task in
// place of a result that takes long, and asks for the result later ([Tasks], docs/tasks.md). Its call survives lost connections from then on.
package rejoin
