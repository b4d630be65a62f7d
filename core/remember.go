package core

// memory holds the numbers of dropped request streams, which outlive their events: a cursor of theirs is answered with what
// became of the request, not as if it had never been issued.
type memory struct {
	ring []tomb
	at   int
}

// tomb is what is left of a dropped stream.
type tomb struct {
	id    StreamID
	last  uint64
	one   [1]Request
	batch []Request
}

func (d *memory) add(s *stream, limit int) {
	if limit <= 0 {
		return
	}
	t := tomb{id: s.id, last: max(s.seq, s.expired), one: s.one, batch: s.batch}
	if len(d.ring) < limit {
		d.ring = append(d.ring, t)
		return
	}
	d.ring[d.at] = t
	d.at = (d.at + 1) % len(d.ring)
}

func (d *memory) find(id StreamID) *tomb {
	for i := range d.ring {
		if d.ring[i].id == id {
			return &d.ring[i]
		}
	}
	return nil
}

func (t *tomb) requests() []Request {
	if t.batch != nil {
		return t.batch
	}
	return t.one[:]
}
