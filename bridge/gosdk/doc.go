// Package gosdk puts servers written with the official Go SDK (github.com/modelcontextprotocol/go-sdk, v1.6.1 or newer) behind
// rejoin. It replaces the SDK's HTTP transport. Tools, prompts and resources stay as they are.
//
//	srv, err := rejoin.NewServer(gosdk.New(mcpServer), rejoin.Config{})
//
// For a server per user or tenant use [NewFunc]. It is called once for a session, not for each request.
//
// # Where messages go
//
// Messages that are sent with a handler's context (progress, log messages, sampling, elicitation, roots, pings) travel on the stream of the
// handler's call, in the order of sending, also while the client is away. After the response they go to the session's standalone stream, but
// progress is dropped. Broadcasts of the SDK (list_changed, resources/updated) and messages that are sent with another context go to the
// standalone stream at once.
//
// If a send fails, it affects only its own message. The error is rejoin.ErrFull if the client has left too much unread,
// rejoin.ErrSessionEnded, or an error of the SDK. It is not an error that no client is connected.
//
// So pass the handler's context on. A goroutine that a tool starts may use it as long as it likes. A context derived from
// context.Background() belongs to the session, not to the call.
//
// If your middleware sends messages itself, add it with AddReceivingMiddleware before you call New. Messages of a middleware added later
// still travel on their call's stream, if the bridge can find out which request a context belongs to (it can with v1.6.1 to v1.8.0). But there
// rejoin.HandleFromContext finds no call, and a panic ends the process, as it does with the SDK alone.
//
// # What a handler sees
//
// The handler's context has the values of the HTTP request that carries its own call, not of the request that opened the session.
// rejoin.HandleFromContext and rejoin.ServerFromContext work with it and with every context derived from it. It ends when the
// client cancels the call, the session ends, or rejoin abandons the call, and context.Cause returns rejoin's cause. A disconnect does not
// end it. If a call or session has ended before its handler begins, the handler gets a context that has ended. A handler of a notification has
// the values of its own request too, but no handle, and its context ends with the session.
//
// RequestExtra.Header and RequestExtra.TokenInfo also belong to the call's own request. RequestExtra.CloseSSEStream is nil if the client
// cannot poll, so check it. It may be called any number of times, from any goroutine. It never waits, and does nothing after the call has
// ended. RetryAfter is rounded to milliseconds and lengthened by up to a fifth; 0 is the value of the policy.
//
// # Sessions
//
// An mcp.ServerSession lives as long as rejoin's session. DELETE, expiry and Server.Close cancel its handlers at once and do not wait for
// them; ServerSession.Wait returns when the last handler has returned. ServerSession.Close waits for handlers without cancelling them,
// and then ends the session for the client as well. The ID is the Mcp-Session-Id of the client, which is a secret.
// ServerOptions.GetSessionID is not called: rejoin creates the ids. The bridge answers the SDK's keep-alive pings itself, because the SDK would
// close the session of a client that is away; rejoin has its own limits for that.
//
// If a handler panics, or returns neither a result nor an error, its call is answered with an internal error, and this is logged, a panic with its
// stack. A tool must recover panics in goroutines that it starts. The same holds for a tool that ends its goroutine
// (runtime.Goexit), except in a modern call: the SDK never answers that. Errors of a handler reach the client as with the SDK's own transports.
//
// # Eras
//
// Unless rejoin.Config.Eras is rejoin.EraLegacy, the SDK's own stateless handler serves requests of version 2026-07-28. This needs v1.7.0 of the
// SDK: with an older one rejoin.EraDefault is rejoin.EraLegacy, and rejoin.NewServer refuses rejoin.EraBoth and rejoin.EraModern. These requests
// have no session, and clients cannot poll: CloseSSEStream makes the call a task (rejoin.Config.Tasks), and does nothing if the client takes none. A
// disconnect cancels a request, unless it is a task, of which the SDK knows nothing. The newest version that initialize can negotiate is 2025-11-25.
//
// # Versions of the SDK
//
// The module requires the lowest version that works, so it does not force an upgrade. It uses what newer versions have, if it is there:
//
//   - v1.8.0 can restore the negotiated version of a session. With an older version, ServerSession.InitializeParams of a restored session has the
//     negotiated version in place of the requested one.
//   - v1.7.0 has the modern era.
//   - If the bridge cannot find out which request a context belongs to, messages of middleware added after New go to the standalone stream. This is
//     logged once for each App. No such version is known.
//
// # Limits
//
// Handlers of notifications run one by one, in the order in which the client sent them, and all later requests of the session wait for them. While
// a handler runs, up to 1,024 notifications of its session wait, or 4 MiB of them. Further ones are dropped, which is logged once for each session. A
// call counts against rejoin.Config.MaxConcurrent until its handler has returned, also if it was cancelled.
//
// A session can be subscribed to 1,000 resources, each with a URI of at most 8 KiB; beyond that clients get errors. If initialize is larger than
// 8 KiB or has more than about 256 values, the SDK gets only the version, the client's name, title and version, and the capabilities that rejoin
// keeps. The SDK gets no params of notifications/initialized.
//
// # Moving sessions
//
// In a cluster (rejoin.Config.Cluster) another process adopts a session whose owner is dead. The session's state (Session.SavedState) is JSON:
// the params of initialize, the negotiated version, whether the client has sent initialized, the log level and the subscriptions. Open with this
// state connects the session again without an initialize. It calls the subscribe handlers again, with the header and the values of the request
// that adopts, but not the initialized handler. NewFunc chooses the server anew, by that request. Handlers must move their own data of a session
// themselves. If a handler runs at the old owner when that learns that it has lost the session, its context ends with rejoin.ErrMoved.
package gosdk
