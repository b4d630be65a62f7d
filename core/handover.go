package core

// handOver prepares the session for the process that goes on with it. It takes new work as ever, because it may take long until nothing runs. With
// LetGo the clients of streams that run are detached, as far as they can come back: they come back through another process. As long as nothing runs,
// the standalone stream has no reader.
func (m *Machine) handOver(in *In, out []Out) []Out {
	if m.streamTable == nil || m.phase != phaseOpen {
		return out
	}
	if in.Flags&LetGo != 0 {
		for i := range m.streams {
			// What is undecided may still be answered at once.
			if s := &m.streams[i]; s.phase == streamRunning && s.reader == readerAttached && m.resumable(s) {
				out = m.detach(int32(i), 0, out)
			}
		}
	}
	s := &m.streams[standalone]
	switch {
	case m.unanswered > 0 || s.conn == 0:
	case m.resumable(s):
		out = m.detach(standalone, 0, out)
	default:
		out = m.endConn(standalone, s.seq, m.closeRetry(s, 0), Shutdown, out)
	}
	return out
}

// AtRest reports whether nothing runs and no connection is left, so that another process can go on with the session. What was not fetched yet is in
// the store, unless the store has failed.
func (m *Machine) AtRest() bool { return m.phase == phaseOpen && !m.Busy() && m.running == 0 }
