// Package crossing tests apps whose sessions end while something of them is on its way: a call, a notification, a question, an answer, a
// cancellation, a poll, a subscription. NewApp and both bridges use it.
//
// A scenario is a way in which a session ends, and an operation that runs at the same time. It runs with many sessions, eight at a time, in
// virtual time. The context of each tool must end with a cause of rejoin. Afterwards no goroutine, session, call or notification may be left.
// The test has weak pointers to sessions, calls and notifications, so it finds even one of them, whatever its size. It also counts the objects
// of the heap.
//
// RunTasks does the same with calls that become tasks. It looks for the requests that the app's handler got, and for their handles.
//
// The flag -crossings sets the number of sessions of each scenario.
package crossing
