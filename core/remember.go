package core

// memory holds the numbers of dropped request streams, which outlive their events: a cursor of theirs is answered with what
// became of the request, not as if it had never been issued.
type memory struct {
	ring    []tomb
	batches [][]Request // of those of the ring that were batches; nil: there was none yet
	at      int
	one     [1]Request // scratch
}

// tomb is what is left of a dropped stream. All of its requests are settled.
type tomb struct {
	id   StreamID
	last uint64
	name string // of its request, unless it was a batch
	seq  uint64 // of the response
}

// add remembers a stream, and forgets the oldest over limit, which is positive.
func (d *memory) add(s *stream, limit int) {
	at := d.at
	if len(d.ring) < limit {
		at = len(d.ring)
		d.ring = append(d.ring, tomb{})
	} else {
		d.at = (d.at + 1) % len(d.ring)
	}
	d.ring[at] = tomb{id: s.id, last: max(s.seq, s.expired), name: s.one[0].ID, seq: s.one[0].Seq}
	if s.batch == nil && at >= len(d.batches) {
		return
	}
	for at >= len(d.batches) {
		d.batches = append(d.batches, nil)
	}
	d.batches[at] = s.batch
}

// find returns the place of a stream, or -1.
func (d *memory) find(id StreamID) int {
	if d == nil {
		return -1
	}
	for i := range d.ring {
		if d.ring[i].id == id {
			return i
		}
	}
	return -1
}

// requests returns the members of the stream in a place, whether there is one or a batch.
func (d *memory) requests(at int) []Request {
	if at < len(d.batches) && d.batches[at] != nil {
		return d.batches[at]
	}
	t := &d.ring[at]
	d.one[0] = Request{ID: t.name, Seq: t.seq, state: settled}
	return d.one[:]
}
