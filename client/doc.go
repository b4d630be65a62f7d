// Package client calls MCP servers over Streamable HTTP (versions 2025-03-26 to 2025-11-25) and polls as SEP-1699 asks: a stream that
// ends or breaks before its response is taken up again after the last event that arrived, not before the server wants it. It does
// polling, resuming, listening and tracing, and is no general SDK: params and results are the caller's.
//
//	s, err := client.Connect(ctx, "https://example.com/mcp", client.Config{})
//	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "slow"})
//	for m := range call.Messages() { … }       // progress and the like, each once
//	err = call.Wait(ctx, &result)
//
// # Across restarts
//
// [Call.Token] says where a call stands. Another process goes on with [Resume]: it gets what came since, and the response.
//
// # What may be lost
//
// A server that gives no event ids cannot be asked again: where such a stream breaks, the call ends with [ErrMayHaveRun] and is never
// sent a second time. Everything else is delivered in order, each message once.
//
// All types are safe for concurrent use. Every goroutine that a session starts ends with its calls, its Listen loops and Close.
package client
