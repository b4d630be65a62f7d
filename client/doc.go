// Package client calls MCP servers over Streamable HTTP, and keeps calls alive when their connections end. In the legacy era of the protocol
// (versions 2025-03-26 to 2025-11-25) it polls as SEP-1699 asks: when a stream ends or breaks before its response, the client waits as long as
// the server asked, and resumes the stream after the last event that arrived. In the modern era (version 2026-07-28) it takes tasks (extension
// io.modelcontextprotocol/tasks), and asks for their state until they end. It polls, resumes, listens and traces. It is not a general SDK:
// params and results are the caller's.
//
//	s, err := client.Connect(ctx, "https://example.com/mcp", client.Config{})
//	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "slow"})
//	for m := range call.Messages() { … }       // progress and the like, each once
//	err = call.Wait(ctx, &result)
//
// # The two eras
//
// [Config.Era] chooses. By default [Connect] asks the server what it has (server/discover), and takes the modern era only if the server has
// tasks there, or has no other era: without tasks, a call of the modern era ends with its connection. A server of the legacy era refuses
// that one request. The program is the same in both eras, but for this:
//
//   - Messages of a call are complete in the legacy era. Once a call of the modern era is a task, there is only the newest thing that the
//     server says of it (statusMessage): a [Message] of method notifications/tasks, whose params have status, statusMessage and lastUpdatedAt.
//   - A call of the modern era that is not a task yet ends with its connection: Leave cancels it, and a lost connection is [ErrMayHaveRun].
//   - There is no session: [Session.ID] is "", and Close sends no DELETE. It cancels the calls that run.
//
// # Across restarts
//
// [Call.Token] says how far a call has got. Another process continues the call with [Resume]: it gets the messages after that, and the
// response. A token knows its era.
//
// # What may be lost
//
// If a server gives no event ids and makes no task, a call cannot be resumed: when its connection breaks, it ends with [ErrMayHaveRun]. The
// call is not sent a second time. Everything else is delivered in order, each message once.
//
// All types are safe for concurrent use. The goroutine of a call ends with the call, that of a Listen loop with the loop, and Close ends all.
package client
