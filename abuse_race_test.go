//go:build race

package rejoin_test

// The race detector makes the server thirty times slower. What counts there is what happens, not how often.
const fewer = 20
