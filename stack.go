package rejoin

// deepen makes the stack of a goroutine that has just begun as large as a tool and its answer need, at once: growing it later, when many
// calls are on it, means to find and copy their frames each time, which was a third of what a call cost. The garbage collector takes
// back what a tool that waits does not need.
//
//go:noinline
func deepen(room bool) byte {
	if !room { // nothing is cleared or used: the frame alone makes the stack grow
		return 0
	}
	var frame [5 << 10]byte
	return touch(&frame)
}

//go:noinline
func touch(frame *[5 << 10]byte) byte { return frame[len(frame)-1] }
