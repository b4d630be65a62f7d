package core

// listName says which list a stream is in.
type listName uint8

const (
	inNone listName = iota
	inRead
	inUnread
)

// list is a queue of ended streams, threaded through them so that each operation takes the same time however many there are.
type list struct {
	head, tail int32
	n          int
}

var emptyList = list{head: -1, tail: -1}

func (m *Machine) list(name listName) *list {
	if name == inRead {
		return &m.read
	}
	return &m.unread
}

// enlist appends an ended stream to the list it belongs in.
func (m *Machine) enlist(i int32) {
	s := &m.streams[i]
	s.in = inUnread
	if s.sent >= s.seq {
		s.in = inRead
	}
	l := m.list(s.in)
	s.prev, s.next = l.tail, -1
	if l.tail >= 0 {
		m.streams[l.tail].next = i
	} else {
		l.head = i
	}
	l.tail = i
	l.n++
	m.ids += idBytes(s.one[0].ID, s.batch)
}

// relist moves a stream that has been written out by now.
func (m *Machine) relist(i int32) {
	if s := &m.streams[i]; s.in == inUnread && s.sent == s.seq {
		m.unlist(i)
		m.enlist(i)
	}
}

func (m *Machine) unlist(i int32) {
	s := &m.streams[i]
	if s.in == inNone {
		return
	}
	l := m.list(s.in)
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
	m.ids -= idBytes(s.one[0].ID, s.batch)
	s.in, s.prev, s.next = inNone, -1, -1
}
