// Package conformance tests rejoin against what others wrote: the official conformance suite (conformance/run, with the server in
// ./fixture) and the clients of the official SDKs and of mcp-go (the tests of this package).
//
// The newest official Go client runs inside the tests. Its earlier releases, mcp-go and the two TypeScript clients run in processes of
// their own, from the programs in clients; those that need node are tested with the build tag node alone (make clients).
//
// These tests use real sockets and the client's own clock: the client decides when it comes back. They wait on events with a
// deadline, never for a duration.
package conformance
