// Package storetest tests an event store against the contract of package eventstore. It is the exam that every store must pass.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Features{}, func(t testing.TB) eventstore.Store {
//			return mystore.Open(t.TempDir())
//		})
//	}
//
// Each rule of the contract is a subtest, named after it, with a store of its own. [Features] lists what a store may do differently.
// A rule that does not apply is skipped, and the test's log says why.
//
// [Faulty] is for tests of code that uses a store: it makes any store fail, block or be slow, as a script says.
//
// The package uses only the standard library.
package storetest
