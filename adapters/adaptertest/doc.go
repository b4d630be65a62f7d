// Package adaptertest is the exam that every adapter passes.
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Subject{Mount: mount, Lend: lend, Param: myadapter.Param, Value: value})
//	}
//
// Each rule is a subtest, named after what it promises, in virtual time (testing/synctest). Most of it is net/http's real server over
// in-memory pipes, as in package rejointest.
//
// The main question is whether what a tool reads is its own. Routers give a request's context, parameters and store to another
// request as soon as one is over, while a polling tool runs on; then it reads another user's values. The race detector does not see
// that where requests come one after another, so the exam looks for the foreign values themselves. That it can see
// them with your router is worth a test as well: [Faults] tells what is wrong with a Subject that hands the router's context on.
//
// Only the standard library and this module are used.
package adaptertest
