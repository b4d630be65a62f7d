// Package pipe has connections in memory between a client and an http.Server, for tests. They behave as TCP does: a write returns while the
// buffer has room, what was written before a close is still read, and deadlines work. All waiting is durably blocking in a bubble of
// testing/synctest.
package pipe
