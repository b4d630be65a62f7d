package core

// droppedStreams remembers the numbers of dropped request streams for longer than their events. So a cursor of a dropped stream is answered
// with what became of its requests. It also has the standalone streams of earlier processes. find and olderFrom may be called on nil.
type droppedStreams struct {
	older   []OlderStream   // oldest first; never changed
	ring    []droppedStream // grows as it is filled
	first   int             // index of the oldest
	n       int
	bytes   int        // of all, as idBytes counts
	scratch [1]Request // what requests returns for a single request
}

// droppedStream is what is left of a dropped stream. All of its requests are settled or orphaned.
type droppedStream struct {
	id        StreamID
	last      uint64     // the last number: of an event or of an Expire
	requestID string     // of its request, unless it was a batch
	seq       uint64     // of the response to that
	orphaned  bool       // as the state of its request
	batch     *[]Request // nil: it was a single request
}

// memberBytes is the size of a batch's member without its id.
const memberBytes = 48

// idBytes returns how many bytes the id of a single request, or the members of a batch, take. A client chooses how long the ids are and how
// many members there are.
func idBytes(id string, batch []Request) int {
	size := len(id) + memberBytes*len(batch)
	for k := range batch {
		size += len(batch[k].ID)
	}
	return size
}

func (d *droppedStream) idBytes() int {
	if d.batch != nil {
		return idBytes("", *d.batch)
	}
	return len(d.requestID)
}

// add remembers a stream. It forgets the oldest ones until at most limit streams (limit is positive) and at most maxBytes are left; a
// maxBytes that is not positive is no limit. A stream that alone has more than maxBytes is not remembered.
func (ds *droppedStreams) add(s *stream, limit, maxBytes int) {
	d := droppedStream{id: s.id, last: max(s.seq, s.expireSeq), requestID: s.single[0].ID, seq: s.single[0].Seq,
		orphaned: s.single[0].state == orphaned}
	if s.batch != nil {
		batch := s.batch
		d.batch, d.requestID = &batch, ""
	}
	size := d.idBytes()
	if maxBytes > 0 && size > maxBytes {
		return
	}
	for ds.n > 0 && (ds.n >= limit || maxBytes > 0 && ds.bytes+size > maxBytes) {
		ds.removeOldest()
	}
	if ds.n == len(ds.ring) {
		ds.grow(min(limit, ds.n+ds.n/2+4))
	}
	*ds.at(ds.n) = d
	ds.n++
	ds.bytes += size
}

// at returns the k-th stream; 0 is the oldest.
func (ds *droppedStreams) at(k int) *droppedStream { return &ds.ring[(ds.first+k)%len(ds.ring)] }

func (ds *droppedStreams) removeOldest() {
	d := ds.at(0)
	ds.bytes -= d.idBytes()
	*d = droppedStream{}
	ds.first = (ds.first + 1) % len(ds.ring)
	ds.n--
}

func (ds *droppedStreams) grow(size int) {
	ring := make([]droppedStream, size)
	for k := range ds.n {
		ring[k] = *ds.at(k)
	}
	ds.ring, ds.first = ring, 0
}

// find returns what is left of a stream, or nil.
func (ds *droppedStreams) find(id StreamID) *droppedStream {
	if ds == nil {
		return nil
	}
	for k := range ds.n {
		if d := ds.at(k); d.id == id {
			return d
		}
	}
	return nil
}

// olderFrom returns the older standalone stream of that id and those after it; none: it is not known.
func (ds *droppedStreams) olderFrom(id StreamID) []OlderStream {
	if ds == nil {
		return nil
	}
	for k := range ds.older {
		if ds.older[k].ID == id {
			return ds.older[k:]
		}
	}
	return nil
}

// requests returns the requests of a dropped stream, whether it is one or a batch. The slice is valid until the next call.
func (ds *droppedStreams) requests(d *droppedStream) []Request {
	if d.batch != nil {
		return *d.batch
	}
	ds.scratch[0] = Request{ID: d.requestID, Seq: d.seq, state: settled}
	if d.orphaned {
		ds.scratch[0].state = orphaned
	}
	return ds.scratch[:]
}
