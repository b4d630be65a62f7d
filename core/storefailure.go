package core

// full takes back a sequence that the store had no room for. No reader has seen it, because readers see only what was appended. A reader that
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

// endBefore changes the order of a reader that was told to end after seq: it now ends before seq.
func (m *Machine) endBefore(i int32, seq uint64, out []Out) []Out {
	s := &m.streams[i]
	if s.closing == 0 || s.closingSeq != seq {
		return out
	}
	s.closingSeq = seq - 1
	m.schedule(i)
	end := Out{Do: End, Conn: s.closing, Index: i, Stream: s.id, Seq: s.closingSeq, Older: s.readsOlder}
	if s.mayEndEarly && (s.closingSeq > s.connFrom+1 || s.readsOlder) {
		end.Least = s.connFrom + 1
	}
	if s.phase == streamRunning || s.poll == pollDue {
		end.Dur = s.retry
	} else { // only a cancellation ends a stream without waiting for an append, and then no client is to be let go
		end.Reason = Cancelled
	}
	return append(out, end)
}

// lost notes that the store failed. Events have no ids from here on, so the client must not be detached. If it already was, and its
// connection would write this event before it ends, the connection ends without the event; the client fetches it when it comes back.
func (m *Machine) lost(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i < 0 {
		return out
	}
	s := &m.streams[i]
	s.inMemory = true
	m.schedule(i)
	for k := range s.requests() {
		if s.phase == streamEnded && s.requests()[k].Seq == in.Seq && s.poll != pollDue { // the last response: the client need not come back
			return out
		}
	}
	return m.endBefore(i, in.Seq, out)
}

// healed notes that the store works again. The last event has an id, and no connection has read it. So a client that is detached from now on
// gets that id first, and its cursor lies after all events that it got without ids.
func (m *Machine) healed(in *In) {
	if i := m.find(in.Stream); i >= 0 {
		m.streams[i].inMemory = false
		m.schedule(i)
	}
}
