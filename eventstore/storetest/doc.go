// Package storetest is the exam that every event store passes.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Features{}, func(t testing.TB) eventstore.Store {
//			return mystore.Open(t.TempDir())
//		})
//	}
//
// Each rule of the contract is a subtest, named after it, with a store of its own. What a store may do differently is a field
// of [Features]; a rule that does not apply is left out, and the log says why.
//
// [Faulty] is the other half: it makes any store fail, block or drag as a script says, for tests of what uses a store.
//
// Only the standard library is used.
package storetest
