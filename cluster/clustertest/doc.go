// Package clustertest tests a directory, together with its event store, against the contract of package cluster. It is the exam that
// every directory must pass, besides that of [github.com/rejoin-mcp/rejoin/eventstore/storetest] for its store.
//
//	func TestDirectory(t *testing.T) {
//		clustertest.Run(t, clustertest.Features{}, func(t testing.TB) clustertest.Engine {
//			engine := myengine.Start(t)
//			d := mydirectory.New(engine.Addr())
//			return clustertest.Engine{Directory: d, Store: d, Forget: engine.Restart}
//		})
//	}
//
// Each rule of the contract is a subtest, named after it, with an engine of its own. [Features] lists what an engine cannot be asked.
// A rule that does not apply is not run, and the test's log says why.
//
// [Faulty] is for tests of code that uses a directory: it makes any engine fail, lose answers, block, be slow or unreachable, as a script
// says, and counts the calls.
//
// The package uses only the standard library.
package clustertest
