// Command cluster shows three processes that serve one set of sessions, while they are killed and replaced. It takes about 20 seconds.
//
//	go run ./examples/cluster                          # starts a redis-server of its own, which must be installed
//	go run ./examples/cluster -redis localhost:6379    # uses one that runs: Redis 7.0 or newer, or Valkey 7.2 or newer
//
// The processes are A, B and C. The client reaches them through a balancer without stickiness, which sends each request to the next process. The
// last column says which way a request went: "B → A" came to B, which has sent it on to A, the owner of the session.
//
//   - A tool call outlives its connections, and its client polls through any process.
//   - The owner is killed (kill -9) in the middle of a call. The client gets the error owner_lost, and the session goes on in another process, with
//     what the tools had saved and with the results that had not been fetched.
//   - The next owner is told to end (SIGTERM) in the middle of a call: the result arrives.
//
// The exit code is 0 only if all that happened. No process is left behind, also after an interrupt.
//
// To start your own server, copy server.go. It has what docs/replicas.md recommends; tools.go has the tools. balancer.go is in the place of a load
// balancer. The rest shows what they do. Only Unix has the signals that this needs.
package main
