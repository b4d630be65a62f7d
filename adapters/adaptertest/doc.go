// Package adaptertest tests the adapter of a router. It is the exam that every adapter must pass.
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Subject{Mount: mount, Lend: lend, Param: myadapter.Param, Value: value})
//	}
//
// Each rule is a subtest, named after what it promises, in virtual time (testing/synctest). Most of it uses net/http's real server over
// in-memory pipes, as package rejointest does.
//
// The main question is whether a tool reads its own request's values. A router reuses a request's context, parameters and store for another
// request as soon as the request is over, while a polling tool runs on. If the adapter does not copy them, the tool reads another user's
// values. The race detector does not see that when requests come one after another, so the exam looks for the foreign values themselves.
// Test also that it finds them with your router: [Faults] returns what is wrong with a Subject that passes the router's own context on.
//
// Several processes can serve one set of sessions (rejoin.Config.Cluster). So some rules mount two servers of one cluster, each with a router of its
// own, and every request of a session goes to another of the two than the request before. A request that the other process has forwarded must find its
// session, its user and its path parameters through the adapter as well.
//
// The package uses only the standard library and this module.
package adaptertest
