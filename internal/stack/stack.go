// Package stack makes the stack of a goroutine that has just begun as large as a tool and its answer need, at once. A stack that grows later,
// when many calls are on it, is copied with all their frames each time: that was a third of what a call cost. The garbage collector takes
// back what a tool that waits does not need.
package stack

// To8K makes the stack at least 8 KiB large. Call it with false: the argument only keeps the frame from being optimised away.
//
//go:noinline
func To8K(use bool) byte {
	if !use { // nothing is cleared or used: the frame alone makes the stack grow
		return 0
	}
	var frame [5 << 10]byte
	return touch(frame[:])
}

// To16K is To8K for 16 KiB.
//
//go:noinline
func To16K(use bool) byte {
	if !use {
		return 0
	}
	var frame [9 << 10]byte
	return touch(frame[:])
}

//go:noinline
func touch(frame []byte) byte { return frame[len(frame)-1] }
