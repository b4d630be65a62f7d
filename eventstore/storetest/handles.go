package storetest

import (
	"fmt"
	"runtime"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// manyHandles asks for handles of several names in turns, before the first append. All handles of one name must be one log, whichever
// is used first, and also when some have become garbage.
func manyHandles(e *exam) {
	const names = 16
	var handles [3][names]eventstore.Log
	for turn := range handles {
		for i := range names {
			handles[turn][i] = e.log(fmt.Sprint(i))
		}
	}
	for i := range names {
		if i%4 == 3 {
			e.nilError(handles[0][i].Drop(e.ctx), "drop a log that was never appended to")
		}
	}
	clear(handles[0][:])
	runtime.GC()
	runtime.GC()
	for i := range names {
		a, b, stream := handles[1][i], handles[2][i], fmt.Sprint(i)
		switch i % 4 {
		case 0:
			e.append(b, stream, 1, 2, true)
		case 1:
			e.append(e.log(stream), stream, 1, 1, false)
			e.append(a, stream, 2, 2, true)
		case 2:
			e.append(a, stream, 1, 2, true)
			e.nilError(b.Drop(e.ctx), "drop through a handle that was not used")
		}
	}
	for i := range names {
		stream := fmt.Sprint(i)
		for _, l := range []eventstore.Log{handles[1][i], handles[2][i]} {
			if i%4 < 2 {
				e.wantEvents(l, stream, 1, 2, true, "one of several handles of several names")
				continue
			}
			e.wantGone(l, 1, "after a drop through another of several handles of several names")
			e.wantGone(l, 3, "after a drop through another of several handles of several names")
		}
		if i%4 >= 2 {
			e.wantNothing(e.log(stream), "after a drop")
		}
	}
}
