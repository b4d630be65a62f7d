package core

// full takes back a sequence that the store had no room for. Nobody has seen it: a reader sees only what was appended. One that
// was told to end after it ends before it.
func (m *Machine) full(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i < 0 || in.Seq == 0 || m.streams[i].seq != in.Seq {
		return out
	}
	s := &m.streams[i]
	s.seq--
	m.relist(i)
	m.schedule(i)
	return m.endBefore(i, in.Seq, out)
}

// endBefore makes a reader that was told to write seq and end, end before it.
func (m *Machine) endBefore(i int32, seq uint64, out []Out) []Out {
	s := &m.streams[i]
	if s.closing == 0 || s.upTo != seq {
		return out
	}
	s.upTo = seq - 1
	m.schedule(i)
	end := Out{Do: End, Conn: s.closing, Index: i, Stream: s.id, Seq: s.upTo}
	if s.cut && s.upTo > s.from+1 {
		end.Least = s.from + 1
	}
	if s.life == alive {
		end.Dur = s.retry
	} else { // of what ends a stream, only a cancellation does not wait for an append
		end.Reason = Cancelled
	}
	return append(out, end)
}

// lost notes that the store failed. What comes from here on has no id, so the client must not be sent away: one that was, and would
// have been given the event before it goes, goes without it and fetches it when it comes back.
func (m *Machine) lost(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i < 0 {
		return out
	}
	s := &m.streams[i]
	s.memory = true
	m.schedule(i)
	for k := range s.requests() {
		if s.life == ended && s.requests()[k].Seq == in.Seq { // the last response: nobody has to come back
			return out
		}
	}
	return m.endBefore(i, in.Seq, out)
}

// healed notes that the store works again. The last event has an id and nobody has read it, so a client that is sent away from now on
// is given that id first, and comes back after all that it had without ids.
func (m *Machine) healed(in *In) {
	if i := m.find(in.Stream); i >= 0 {
		m.streams[i].memory = false
		m.schedule(i)
	}
}
