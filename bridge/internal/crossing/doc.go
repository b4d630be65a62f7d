// Package crossing is the exam of an app whose sessions end while something of them is on its way: a call, a notification, a question, an
// answer, a cancellation, a poll, a subscription. NewApp and both bridges take it.
//
// Each pair of an end and of what it crosses is played with many sessions, eight at a time, in virtual time. Then every tool must have seen
// its context end, with rejoin's cause, and no goroutine, session, call or notification may be left: the exam holds weak pointers to them,
// so that one that stays is seen whatever its size, and counts the objects of the heap besides.
//
// The flag -crossings says with how many sessions each pair is played.
package crossing
