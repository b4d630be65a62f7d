package eventstore

// ring is a queue of event data that can be read at any position. The first event has its place in the ring itself: most
// logs never hold a second one. The zero value is empty. Not to be copied.
type ring struct {
	buf  [][]byte
	head int
	n    int
	one  [1][]byte
}

// at returns the element i places behind the oldest.
func (r *ring) at(i int) []byte {
	return r.buf[r.slot(i)]
}

func (r *ring) slot(i int) int {
	i += r.head
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	return i
}

func (r *ring) push(data []byte) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[r.slot(r.n)] = data
	r.n++
}

// shift takes the oldest element out.
func (r *ring) shift() []byte {
	data := r.buf[r.head]
	r.buf[r.head] = nil // or the ring would keep it alive
	r.head = r.slot(1)
	r.n--
	if len(r.buf) > 8 && r.n < len(r.buf)/2 {
		r.resize(r.n + r.n/2 + 1)
	}
	return data
}

func (r *ring) reset() {
	*r = ring{}
}

// grow adds half: the slots that are charged for an event (slotCharge) must be near those that it takes.
func (r *ring) grow() {
	if r.buf == nil {
		r.buf = r.one[:]
		return
	}
	r.resize(len(r.buf) + len(r.buf)/2 + 3)
}

func (r *ring) resize(size int) {
	buf := make([][]byte, size)
	for i := range r.n {
		buf[i] = r.at(i)
	}
	r.one[0] = nil
	r.buf, r.head = buf, 0
}
