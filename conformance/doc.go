// Package conformance tests rejoin against what others wrote: the official conformance suite (conformance/run, with the server in
// ./fixture) and the client of the official Go SDK (the tests of this package).
//
// These tests use real sockets and the client's own clock: the client decides when it comes back. They wait on events with a
// deadline, never for a duration.
package conformance
