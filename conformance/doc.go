// Package conformance tests rejoin against what others wrote: the official conformance suite (conformance/run, with the servers in
// ./fixture, ./gosdkfixture and ./mcpgofixture) and the clients of the official SDKs and of mcp-go (the tests of this package). Package
// client is tested against the suite's own servers (conformance/run-client, with ./clientmode) and those of the SDKs and mcp-go.
//
// The newest official Go client runs inside the tests. Its earlier releases, mcp-go and the two TypeScript clients run in processes of
// their own, from the programs in clients; those that need node are tested with the build tag node alone (make clients). So are the
// TypeScript servers, in servers. The Go servers that package client is tested against run in bubbles.
//
// The tests of other clients, and of other processes, use real sockets and the real clock: the client decides when it comes back. They
// wait on events with a deadline, never for a duration.
package conformance
