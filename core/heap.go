package core

// m.timers is a heap of stream indexes, ordered by deadline. container/heap would allocate to box its elements.

// setTimer sets the deadline of a stream and moves the stream in the heap.
func (m *Machine) setTimer(i int32, at instant) {
	s := &m.streams[i]
	s.deadline = at
	switch {
	case at == never:
		m.unschedule(i)
	case s.heapIndex < 0:
		s.heapIndex = int32(len(m.timers)) //nolint:gosec // as many as streams
		m.timers = append(m.timers, i)
		m.up(s.heapIndex)
	default:
		m.down(m.up(s.heapIndex))
	}
}

// unschedule removes a stream from the heap.
func (m *Machine) unschedule(i int32) {
	s := &m.streams[i]
	at, last := s.heapIndex, int32(len(m.timers))-1 //nolint:gosec // as many as streams
	s.deadline = never
	if at < 0 {
		return
	}
	m.swap(at, last)
	m.timers = m.timers[:last]
	s.heapIndex = -1
	if at < last {
		m.down(m.up(at))
	}
}

func (m *Machine) less(a, b int32) bool {
	return m.streams[m.timers[a]].deadline < m.streams[m.timers[b]].deadline
}

func (m *Machine) swap(a, b int32) {
	m.timers[a], m.timers[b] = m.timers[b], m.timers[a]
	m.streams[m.timers[a]].heapIndex = a
	m.streams[m.timers[b]].heapIndex = b
}

func (m *Machine) up(at int32) int32 {
	for at > 0 {
		parent := (at - 1) / 2
		if !m.less(at, parent) {
			break
		}
		m.swap(at, parent)
		at = parent
	}
	return at
}

func (m *Machine) down(at int32) {
	n := int32(len(m.timers)) //nolint:gosec // as many as streams
	for {
		child := 2*at + 1
		if child >= n {
			return
		}
		if child+1 < n && m.less(child+1, child) {
			child++
		}
		if !m.less(child, at) {
			return
		}
		m.swap(at, child)
		at = child
	}
}
