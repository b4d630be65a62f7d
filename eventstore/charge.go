package eventstore

// The limits are charged what the heap really uses, as measured on a 64-bit machine; a test compares the two. Maps and rings grow
// in steps, so the cost of one entry is a mean.
const (
	sessionCharge = 700 // a session that holds a log, its registry, and its entry in the store's registry
	logCharge     = 200 // a log and its entry in the session's registry
	slotCharge    = 32  // an event's place in the ring
)

// eventCharge is the charge of an event. It counts the capacity of data, which is what stays in memory.
func eventCharge(data []byte) int64 {
	return slotCharge + heapSize(cap(data))
}

// heapSize is roughly what the allocator uses for n bytes.
func heapSize(n int) int64 {
	const page = 8192
	if n > 4*page {
		return (int64(n) + page - 1) &^ (page - 1)
	}
	return (int64(n) + 15) &^ 15
}
