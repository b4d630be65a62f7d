package core

// listName says which list of ended streams a stream is in.
type listName uint8

const (
	listNone    listName = iota
	listFetched          // fully written to a client
	listUnfetched
)

// list is a queue of ended streams, linked by their prev and next. So each operation takes constant time.
type list struct {
	head, tail int32
	n          int
}

var emptyList = list{head: -1, tail: -1}

func (m *Machine) list(name listName) *list {
	if name == listFetched {
		return &m.fetched
	}
	return &m.unfetched
}

// enlist appends an ended stream to the list it belongs in.
func (m *Machine) enlist(i int32) {
	s := &m.streams[i]
	s.inList = listUnfetched
	if s.written >= s.seq {
		s.inList = listFetched
	}
	l := m.list(s.inList)
	s.prev, s.next = l.tail, -1
	if l.tail >= 0 {
		m.streams[l.tail].next = i
	} else {
		l.head = i
	}
	l.tail = i
	l.n++
	m.endedIDBytes += idBytes(s.single[0].ID, s.batch)
}

// relist moves a stream to the list of fetched ones if it was fully written by now.
func (m *Machine) relist(i int32) {
	if s := &m.streams[i]; s.inList == listUnfetched && s.written == s.seq {
		m.unlist(i)
		m.enlist(i)
	}
}

func (m *Machine) unlist(i int32) {
	s := &m.streams[i]
	if s.inList == listNone {
		return
	}
	l := m.list(s.inList)
	if s.prev >= 0 {
		m.streams[s.prev].next = s.next
	} else {
		l.head = s.next
	}
	if s.next >= 0 {
		m.streams[s.next].prev = s.prev
	} else {
		l.tail = s.prev
	}
	l.n--
	m.endedIDBytes -= idBytes(s.single[0].ID, s.batch)
	s.inList, s.prev, s.next = listNone, -1, -1
}
