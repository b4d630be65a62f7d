// Package redistest runs real Redis and Valkey servers as child processes: for tests, and for programs that test with real failures.
//
// Start returns a server that answers; New does it for a test, and ends it with the test. It listens on a free port of 127.0.0.1, has
// a temporary folder of its own, and keeps nothing on disk unless Options.Args say so. Kill, Stop, Pause, Resume and Restart are real:
// signals to the process, and a new process with the same port and folder.
//
// StartReplica, StartSentinel and StartCluster start what production has beside a single server.
//
// The program must be installed: redis-server 7 or newer, or valkey-server 7.2 or newer. If it is missing, the error says so.
//
// # Ends
//
// Close ends a server and removes its folder. On Linux, the server also ends with the process that started it, however that one ends; only
// the folder remains then. The kernel ties that promise to the thread that started the child (go.dev/issue/27505), so that thread is kept
// for as long as the child lives. On other systems, a server outlives a parent that is killed.
//
// # Ports
//
// A port stays the same over restarts, so it must stay free while the server is down. It is taken from below the ports that systems give to
// outgoing connections: a client that dials a dead port of theirs again and again may be given that same port, and connect to itself.
//
// The package runs on Unix only; on other systems it is empty. Its tests have the build tag redis: go test -tags redis ./internal/redistest.
package redistest
