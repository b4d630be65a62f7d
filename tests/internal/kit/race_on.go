//go:build race

package kit

// Fewer divides the number of repetitions in tests that repeat something very often: the race detector makes the server thirty times slower.
const Fewer = 20
