//go:build !race

package kit

// Fewer divides the number of repetitions in tests that repeat something very often.
const Fewer = 1
