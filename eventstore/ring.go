package eventstore

// ring is a queue of event data that can be read at any position. A single event is stored in the ring itself, because most logs
// never hold a second one. The zero value is empty.
type ring struct {
	one  []byte // the only event, while more is nil
	more *moreRing
	n    int
}

// moreRing holds the events as soon as there are two.
type moreRing struct {
	buf  [][]byte
	head int
}

// at returns the element i places after the oldest.
func (r *ring) at(i int) []byte {
	if r.more == nil {
		return r.one
	}
	return r.more.buf[r.more.slot(i)]
}

func (m *moreRing) slot(i int) int {
	i += m.head
	if i >= len(m.buf) {
		i -= len(m.buf)
	}
	return i
}

func (r *ring) push(data []byte) {
	switch {
	case r.more != nil:
		if size := len(r.more.buf); r.n == size {
			r.resize(size + size/2 + 3) // slotCharge must be close to what an event takes
		}
		r.more.buf[r.more.slot(r.n)] = data
	case r.n == 0:
		r.one = data
	default:
		r.more = &moreRing{buf: make([][]byte, 4)}
		r.more.buf[0], r.more.buf[1] = r.one, data
		r.one = nil
	}
	r.n++
}

// shift removes the oldest element and returns it. The ring does not refer to it any more.
func (r *ring) shift() []byte {
	r.n--
	m := r.more
	if m == nil {
		data := r.one
		r.one = nil
		return data
	}
	data := m.buf[m.head]
	m.buf[m.head] = nil
	m.head = m.slot(1)
	if len(m.buf) > 8 && r.n < len(m.buf)/2 {
		r.resize(r.n + r.n/2 + 1)
	}
	return data
}

func (r *ring) reset() {
	*r = ring{}
}

func (r *ring) resize(size int) {
	buf := make([][]byte, size)
	for i := range r.n {
		buf[i] = r.at(i)
	}
	r.more.buf, r.more.head = buf, 0
}
