// Package engine drives the machine of package core: it owns the lock of a session, steps its machine, and does what that asks for. It reads
// and writes the logs of the session's streams, and serves the connections that read them.
//
// The lock and the machine of a session cannot be seen from outside. What the engine needs of the server around it is a [Host].
//
// A step goes down once and comes up once: take the lock, Step, note what is to be done (a pass), free the lock, do it (finish). No store
// call, network write or code of the app runs under the lock.
//
// The way of a message to its client is in send.go, the way of a connection in conn.go and reader.go.
//
// A [Task] is driven in the same way: it has a lock and a machine of its own, and a log with one event. It belongs to no session, but to [Tasks].
package engine
