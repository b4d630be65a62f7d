// Package client calls MCP servers over Streamable HTTP (versions 2025-03-26 to 2025-11-25) and polls as SEP-1699 asks: when a stream
// ends or breaks before its response, the client waits as long as the server asked, and resumes the stream after the last event that
// arrived. It polls, resumes, listens and traces. It is not a general SDK: params and results are the caller's.
//
//	s, err := client.Connect(ctx, "https://example.com/mcp", client.Config{})
//	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "slow"})
//	for m := range call.Messages() { … }       // progress and the like, each once
//	err = call.Wait(ctx, &result)
//
// # Across restarts
//
// [Call.Token] says how far a call has got. Another process continues the call with [Resume]: it gets the messages after that, and the
// response.
//
// # What may be lost
//
// If a server gives no event ids, its streams cannot be resumed: when such a stream breaks, the call ends with [ErrMayHaveRun]. The call
// is not sent a second time. Everything else is delivered in order, each message once.
//
// All types are safe for concurrent use. The goroutine of a call ends with the call, that of a Listen loop with the loop, and Close ends all.
package client
