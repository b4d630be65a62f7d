//go:build !race

package rejoin_test

// fewer divides what is counted in hundreds of thousands.
const fewer = 1
