// Package gosdk puts servers written with the official Go SDK (github.com/modelcontextprotocol/go-sdk, v1.6.1 or newer) behind
// rejoin. Tools, prompts and resources stay as they are; only the HTTP transport in front of them is another one.
//
//	srv, err := rejoin.NewServer(gosdk.New(mcpServer), rejoin.Config{})
//
// A server for each user or tenant comes from [NewFunc], which is asked once for a session, not for each request.
//
// # Where messages go
//
// What is sent with a handler's context (progress, log messages, sampling, elicitation, roots, pings) travels on the stream of the
// handler's call, in the order in which it is sent, also while the client is away. After the response it goes to the session's
// standalone stream, and progress is dropped. What the SDK broadcasts (list_changed, resources/updated) and what is sent with any
// other context goes to the standalone stream at once.
//
// A send fails for itself alone: with rejoin.ErrFull where the client has left too much unfetched, with rejoin.ErrSessionEnded, or
// as the SDK's do. That nobody listens is no error.
//
// So pass the handler's context on. A goroutine that a tool starts may use it for as long as it likes, but one that is derived
// from context.Background() speaks for the session, not for the call.
//
// Middleware that sends by itself belongs inside New's own: call AddReceivingMiddleware before New. What a middleware added later
// sends still travels on its call's stream, if the SDK lets itself be asked which request a context belongs to (v1.6.1 to v1.8.0
// do), but rejoin.HandleFromContext knows nothing there, and a panic ends the process, as it does with the SDK alone.
//
// # What a handler sees
//
// The handler's context has the values of the HTTP request that carries its own call, not of the one that opened the session.
// rejoin.HandleFromContext and rejoin.ServerFromContext work with it and with every context derived from it. It ends when the
// client cancels the call, the session ends, or rejoin gives the call up, and context.Cause is rejoin's; a disconnect does not
// end it. A handler that begins when its call or session has ended gets a context that has ended. A handler of a notification has the values of
// its request too, and no handle; its context ends with the session.
//
// RequestExtra.Header and RequestExtra.TokenInfo are likewise those of the call's own request. RequestExtra.CloseSSEStream is set
// only where the client can poll, so check it for nil; it may be called any number of times, from any goroutine, never waits, and
// does nothing once the call has ended. RetryAfter is rounded to milliseconds and lengthened by up to a fifth; 0 is the policy's.
//
// # Sessions
//
// An mcp.ServerSession lives as long as rejoin's session. DELETE, expiry and Server.Close cancel its handlers at once and wait for
// none of them; ServerSession.Wait returns when the last one has. ServerSession.Close waits for handlers without cancelling them,
// and then ends the session for the client as well. Its ID is what the client sends as Mcp-Session-Id, a secret.
// ServerOptions.GetSessionID is not asked: rejoin makes the ids. The SDK's keep-alive pings are answered for the client, since one
// that is away is no reason to end its session; rejoin has its own limits for that.
//
// A handler that panics answers its call with an internal error, and the stack is logged; so does one that returns neither a result nor an
// error. Panics in goroutines of its own are its own to catch. Errors of a handler reach the client as with the SDK's own transports.
//
// # Limits
//
// The SDK handles a session's notifications one after the other, and holds back every request behind them. A session may have 1,024
// notifications, or 4 MiB of them, waiting for their handlers; what comes beyond is dropped, and logged once for each
// session. Cancelled calls whose handlers have not returned are limited to 1,024 in a session; a call beyond is answered with an
// internal error. rejoin.Config limits everything else.
//
// # Eras
//
// With rejoin.Config.Eras Both or Modern, requests of version 2026-07-28 are served by the SDK's own stateless handler, which
// needs v1.7.0; with an older SDK rejoin.NewServer refuses such a configuration. There every request stands alone, a
// disconnect cancels it, and nobody can poll: CloseSSEStream is the SDK's and does nothing. Sessions end at 2025-11-25: initialize cannot open a newer version.
//
// # Versions of the SDK
//
// The module requires the lowest version that works, so that it forces no upgrade; what newer ones add is used where it is there:
//
//   - v1.8.0 restores a session's negotiated version. Before, a restored session has it in place of the version that the client
//     asked for (ServerSession.InitializeParams).
//   - v1.7.0 has the modern era.
//   - Where the SDK cannot be asked which request a context belongs to, what middleware added after New sends by itself goes to
//     the standalone stream. No known version; should one come, it is logged, once for each App.
//
// # Limits
//
// Handlers of notifications run one by one, in the order in which the client sent them. While one is busy, 1,024 notifications of its session
// wait, or 4 MiB of them; what comes then is dropped, which is logged once a session. A session can be subscribed to 1,000 resources, each with a
// URI of at most 8 KiB: beyond that clients get errors. Of an initialize that is
// larger than 8 KiB or has more than about 256 values, the SDK gets the version, name, title and version of the client, and what rejoin keeps of
// its capabilities; of notifications/initialized no params.
//
// # Moving sessions
//
// The session's state (Session.SavedState) is JSON: the params of initialize, the negotiated version, whether the client has
// sent initialized, the log level and the subscriptions. Open with it connects the session anew without an initialize; subscribe
// handlers are called again, initialized handlers are not, and what handlers kept in memory by session is theirs to move.
package gosdk
