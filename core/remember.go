package core

// memory holds the numbers of dropped request streams, which outlive their events: a cursor of theirs is answered with what
// became of the request, not as if it had never been issued.
type memory struct {
	ring  []tomb // grows as it is filled
	first int    // the oldest
	n     int
	bytes int        // of all, as idBytes counts
	one   [1]Request // scratch
}

// tomb is what is left of a dropped stream. All of its requests are settled.
type tomb struct {
	id    StreamID
	last  uint64
	name  string // of its request, unless it was a batch
	seq   uint64 // of the response
	batch *[]Request
}

// memberBytes is what a member of a batch holds beside its id.
const memberBytes = 48

// idBytes is what the ids of one request, or of a batch, hold. The length of an id is the client's choice, and so is the number of members.
func idBytes(name string, batch []Request) int {
	size := len(name) + memberBytes*len(batch)
	for k := range batch {
		size += len(batch[k].ID)
	}
	return size
}

func (t *tomb) idBytes() int {
	if t.batch != nil {
		return idBytes("", *t.batch)
	}
	return len(t.name)
}

// add remembers a stream, and forgets the oldest that are over limit, which is positive, or over most bytes (not positive: any number).
// One that has more alone is not remembered.
func (d *memory) add(s *stream, limit, most int) {
	t := tomb{id: s.id, last: max(s.seq, s.expired), name: s.one[0].ID, seq: s.one[0].Seq}
	if s.batch != nil {
		batch := s.batch
		t.batch, t.name = &batch, ""
	}
	size := t.idBytes()
	if most > 0 && size > most {
		return
	}
	for d.n > 0 && (d.n >= limit || most > 0 && d.bytes+size > most) {
		d.forget()
	}
	if d.n == len(d.ring) {
		d.grow(min(limit, d.n+d.n/2+4))
	}
	*d.at(d.n) = t
	d.n++
	d.bytes += size
}

// at is the k-th, the oldest being the first.
func (d *memory) at(k int) *tomb { return &d.ring[(d.first+k)%len(d.ring)] }

// forget takes out the oldest.
func (d *memory) forget() {
	t := d.at(0)
	d.bytes -= t.idBytes()
	*t = tomb{}
	d.first = (d.first + 1) % len(d.ring)
	d.n--
}

func (d *memory) grow(size int) {
	ring := make([]tomb, size)
	for k := range d.n {
		ring[k] = *d.at(k)
	}
	d.ring, d.first = ring, 0
}

// find returns what is left of a stream, or nil.
func (d *memory) find(id StreamID) *tomb {
	if d == nil {
		return nil
	}
	for k := range d.n {
		if t := d.at(k); t.id == id {
			return t
		}
	}
	return nil
}

// requests returns the members of a stream, whether there is one or a batch.
func (d *memory) requests(t *tomb) []Request {
	if t.batch != nil {
		return *t.batch
	}
	d.one[0] = Request{ID: t.name, Seq: t.seq, state: settled}
	return d.one[:]
}
