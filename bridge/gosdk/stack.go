package gosdk

// stack is what checking a tool's arguments needs.
const stack = 9 << 10

// deepen makes the stack of a goroutine that has just begun as large as a tool and its answer need, at once: growing it later, when many
// calls are on it, means to find and copy their frames each time. The garbage collector takes back what a tool that waits does not need.
//
//go:noinline
func deepen(room bool) {
	if room { // nothing is cleared or used else: the frame alone makes the stack grow
		var frame [stack]byte
		touch(&frame)
	}
}

//go:noinline
func touch(frame *[stack]byte) { frame[0] = 1 }
