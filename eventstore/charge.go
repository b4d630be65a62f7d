package eventstore

// What is charged to the limits is what the heap gives up for it, as measured on a 64-bit machine; a test compares. Maps and
// rings grow in steps, so that what one entry costs is a mean.
const (
	sessionCharge = 700 // a session that holds a log, its registry and its entry in the store's
	logCharge     = 200 // a log and its entry in the registry
	slotCharge    = 32  // an event's place in the ring
)

// eventCharge counts what data keeps alive, which is its capacity.
func eventCharge(data []byte) int64 {
	return slotCharge + heapSize(cap(data))
}

// heapSize is about what the allocator takes for n bytes.
func heapSize(n int) int64 {
	const page = 8192
	if n > 4*page {
		return (int64(n) + page - 1) &^ (page - 1)
	}
	return (int64(n) + 15) &^ 15
}
