//go:build race

package kit

// Fewer divides what is counted in hundreds of thousands. The race detector makes the server thirty times slower; what counts there is
// what happens, not how often.
const Fewer = 20
