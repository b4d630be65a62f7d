//go:build unix

// Command chaos runs the processes of a cluster on a real Redis, and makes real failures while hundreds of clients call tools:
//
//	go run ./field/chaos -for 1h -clients 200
//	go run ./field/chaos -faults deploy -every 10s -for 10m
//
// There are three processes (children of this one), each with a server of NewApp, of the official Go SDK and of mcp-go. Before them is a load
// balancer without stickiness and without keep-alive (spray.go). The clients are of five kinds: one without a library, package client, the official
// Go SDK, mcp-go and the official TypeScript SDK. All ways between processes, and from each to the engine, lead through proxies that can be cut
// (link.go). The faults are listed in strike.go: kill -9, SIGSTOP, SIGTERM, an engine that is away, crashes, loses data or has no memory,
// a replica that takes over without the newest data, partitions. Each comes alone, in an order that differs each time, and then two come at once.
//
// # The oracle
//
// Each process appends to a file what its tools do, before rejoin gets an event and after it has taken it (oracle.go), and what the engine has
// taken under which fence (spy.go). The file survives kill -9. Clients keep a ledger of what they have got (ledger.go). At the end a judge compares
// (judge.go, owners.go). What must not be is counted, and every count must be 0, or the exit status is 1:
//
//   - an event or a result that is missing, comes twice, out of order, or to another client; a number that means two events;
//   - a write that the engine has taken from a process after another one had become the owner of the session;
//   - a call that ends with an error though its owner was not touched; one that ends too late: later than two leases, Retry and 5 s after its
//     tool or the cause of a fault has gone;
//   - 404 for a session that lives, a refusal without a fault; in planned ends any answer that a client must act on;
//   - sessions, streams and connections that are left in the processes, keys of the engine that never expire.
//
// What rejoin does not promise is counted apart, with its cause: what owner and engine have lost together (the fault "adopted" does that on
// purpose), a connection that was lost before an event id, events that rejoin has refused because the engine has no memory. A library may give a
// call up by rules of its own; then this program itself polls for the call, from the last event that has passed to the library, and must get its end.
//
// A second in which this machine did not run this process counts as a fault, too: a lease may have run out.
package main
