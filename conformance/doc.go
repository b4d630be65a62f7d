// Package conformance tests rejoin against software of others: the official conformance suite (conformance/run, with the servers in
// ./fixture, ./gosdkfixture and ./mcpgofixture), and the clients of the official SDKs and of mcp-go (the tests of this package). Package
// client is tested against the suite's own servers (conformance/run-client, with ./clientmode), against those of the SDKs and mcp-go, and beside the
// clients of others (./drivenclient).
//
// The suite succeeds also if it could not make a check. So check.mjs compares the results with expected.mjs, which names each check that must be
// made, and its own tests (make conformance) show that it fails when one is missing.
//
// The newest official Go client runs inside the tests. Its earlier releases, mcp-go and the two TypeScript clients run in processes of their
// own, from the programs in clients. Tests that need node have the build tag node (make clients). So have those of the TypeScript servers, in
// servers. The Go servers for package client run in bubbles.
//
// The tests of other clients and of other processes use real sockets and the real clock, because the client decides when it polls. They wait
// for events with a deadline, never for a duration.
package conformance
