//go:build !race

package kit

// Fewer divides what is counted in hundreds of thousands.
const Fewer = 1
