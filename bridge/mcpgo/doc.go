// Package mcpgo puts servers written with mcp-go (github.com/mark3labs/mcp-go) behind rejoin. It replaces mcp-go's HTTP transport. Tools,
// prompts, resources, hooks and middleware stay as they are. Messages sent with a handler's context travel on the stream of the handler's call.
//
//	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{})
//
// # A handler's context
//
// The context has the values of the HTTP request that carries the call. So rejoin.HandleFromContext works with it and with every context
// derived from it. It ends with rejoin's cause. request.Header is a copy of the header of that HTTP request. The context of a notification
// handler ends with the session.
//
// SendNotificationToClient, SendLogMessageToClient, RequestElicitation, RequestSampling and RequestRoots use the call's stream, in the
// order of the calls, also while the client is away. After the end of the call they use the session's standalone stream.
// SendNotificationToSpecificClient, SendNotificationToAllClients and list_changed always use the standalone stream. HandleFromContext waits
// until the notifications that were sent before are forwarded, so what is sent through the handle after that, and a CloseStream, comes after them.
//
// # Sessions
//
// A session is registered when initialize has succeeded, before the client sees the answer. It is unregistered when it ends, however it
// ends. Hooks for both run on the transport's goroutine and must not block. ClientSessionFromContext returns a different value in each call,
// with the same id and state as the session that hooks get, so compare ids. The channel of NotificationChannel has room for 32 messages and is
// read until the call ends.
//
// Sessions store resources/subscribe. To see the subscriptions, convert a session of a hook, or the one of a handler's context, to
// server.SessionWithResourceSubscriptions.
//
// # Moving sessions
//
// In a cluster (rejoin.Config.Cluster) another process adopts a session whose owner is dead. Client info, capabilities, the version, the log
// level and the subscriptions go on there. The session is registered, so hooks are called, with the values of the request that adopts. Tools and
// resources of the session itself (AddSessionTool) are lost, because they hold functions: a hook of OnRegisterSession can add them
// again. When the old owner learns that it has lost the session, it unregisters it. Cause tells hooks of OnUnregisterSession about this.
//
// # Limits
//
// Handlers of notifications run one by one, in the order in which the client sent them. While a handler runs, up to 1,024 notifications of its
// session wait, or 4 MiB of them. Further ones are dropped, which is logged once for each session. A session can be subscribed to 1,000
// resources, each with a URI of at most 8 KiB; beyond that clients get errors. If initialize is larger than 8 KiB or has more than about 256
// values, mcp-go gets only the version, the client's name, title and version, and the capabilities that rejoin keeps.
//
// # Eras
//
// Unless rejoin.Config.Eras is rejoin.EraLegacy, mcp-go's own transport serves requests of version 2026-07-28, inside rejoin's checks and limits. Only
// the notifications of a call are written by rejoin: all of them arrive before the result. In this era a client cancels a request when it
// closes its connection, unless rejoin has made a task of it (rejoin.Config.Tasks), of which mcp-go knows nothing. Handlers that ask
// through server.InputRequestBuilder work in both eras. Modern requests have no session: the one in the context of a request exists only for this
// request. A tool that works only as a task of mcp-go cannot be called in this era, unless rejoin.Tasks.Off is set.
//
// # Not supported
//
// mcp-go returns before a notification reaches the event store. If the store has no room for it, a warning is logged, but the sender gets no
// error. Handle.Notify of rejoin returns rejoin.ErrFull.
//
// Options of server.NewStreamableHTTPServer have no effect: use rejoin.Config and middleware of the router. If a tool runs as a task of mcp-go
// (those of version 2025-11-25), its context ends when the task is created, as with mcp-go's own transport; rejoin cannot change that.
//
// # Other versions of mcp-go
//
// The package is written for v1.2.1. It uses three behaviours that mcp-go does not document, and New tests whether they exist. If one is
// missing, a warning is logged once, and one of these happens: request.Header is empty; or notifications that come faster than the event store
// accepts them can be refused (server.ErrNotificationChannelBlocked); or the last notifications of a modern call can be lost.
package mcpgo
