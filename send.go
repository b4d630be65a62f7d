package rejoin

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// message is one JSON-RPC message on its way to a log: what an Emit or Reply needs, and nothing else, for it lies on the stacks of tools.
type message struct {
	op     core.Op
	flags  core.Flags
	stream core.StreamID // of the call that it was made in
	id     string        // of the request that it answers, as the client wrote it
	data   []byte
	ask    string // the id of a request to the client
}

func (m *message) in() core.In { return core.In{Op: m.op, Flags: m.flags, Stream: m.stream, ID: m.id} }

// send takes a message to the stream it belongs to. Messages of one stream are appended one at a time: whoever finds nobody
// appending does it, for those too that come meanwhile, which return at once. So a slow store delays, and never reorders.
//
// The error is about this message, unless it had to wait for its turn: then nil, and a failure is counted and logged, or is the
// answer to whoever asked.
func (s *Session) send(m message) error {
	in := m.in()
	s.mu.Lock()
	i := s.m.Route(&in)
	if i < 0 {
		var p pass
		s.stepMessage(&in, &m, &p)
		s.mu.Unlock()
		s.finish(&p)
		return discardError(&m, p.discarded)
	}
	st := s.streams[i]
	if !st.appending {
		st.appending = true
		return s.sendAll(st, &m)
	}
	defer s.mu.Unlock()
	if m.op != core.Reply && st.queued+len(m.data) > maxQueuedBytes {
		return ErrFull
	}
	st.queue, st.queued = append(st.queue, m), st.queued+len(m.data)
	return nil
}

// sendAll appends m and whatever waits behind it. It takes the lock over and frees it.
func (s *Session) sendAll(st *stream, m *message) error {
	err := s.sendOne(m)
	var moved []message
	for len(st.queue) > 0 {
		*m = st.queue[0]
		st.queue[0] = message{}
		st.queue, st.queued = st.queue[1:], st.queued-len(m.data)
		in := m.in()
		if i := s.m.Route(&in); i >= 0 && s.streams[i] != st {
			moved = append(moved, *m) // its call ended while it waited
			continue
		}
		if e := s.sendOne(m); e != nil {
			s.mu.Unlock()
			s.unsent(m, e)
			s.mu.Lock()
		}
	}
	st.queue, st.appending = nil, false
	s.mu.Unlock()
	for i := range moved {
		if e := s.send(moved[i]); e != nil {
			s.unsent(&moved[i], e)
		}
	}
	return err
}

// sendOne steps one message and appends it where the machine says. It is called with the lock and returns with it.
func (s *Session) sendOne(m *message) error {
	var p pass
	in := m.in()
	s.stepMessage(&in, m, &p)
	s.mu.Unlock()
	var err error
	if p.record != nil {
		err = s.append(p.record, p.seq, m.data, p.seal, m.ask != "")
	} else if p.discarded != core.NoReason {
		err = discardError(m, p.discarded)
	}
	s.finish(&p)
	s.mu.Lock()
	return err
}

// unsent tells of a message that had to wait for its turn, and went nowhere.
func (s *Session) unsent(m *message, err error) {
	if a := s.takeAsk(m.ask); a != nil {
		go s.deliver(a, nil, err)
		return
	}
	s.srv.logUnsent(s, err)
}

// append puts an event into the store, without the lock, and makes it visible to readers. urgent: it is a question.
func (s *Session) append(st *stream, seq uint64, data []byte, seal, urgent bool) error {
	log, err := s.record(st, seq, data, seal, urgent)
	if errors.Is(err, eventstore.ErrFull) && !seal && s.press(core.In{Op: core.Press, Stream: st.id}) {
		log, err = s.record(st, seq, data, seal, urgent)
	}
	switch {
	case err == nil:
	case errors.Is(err, eventstore.ErrFenced):
		s.end(core.Moved)
		return ErrMoved
	case errors.Is(err, ErrSessionEnded):
		s.takeBack(st, seq)
		return ErrSessionEnded // it ended while we appended
	default:
		s.takeBack(st, seq)
		s.srv.logFull(s)
		return ErrFull
	}
	dropped, over := s.stored(st, seq, log, len(data))
	if dropped { // while we appended, so that nobody else knows of the log
		s.srv.dropLog(log)
	}
	if over {
		s.srv.dropSession(s.id)
	}
	return nil
}

// appendTo calls the store. One that panics has failed: whoever sends next on this stream would wait for its turn for ever.
func (s *Session) appendTo(log eventstore.Log, seq uint64, data []byte, seal, urgent bool) (err error) {
	ctx, cancel := s.srv.deadline()
	defer cancel()
	if urgent {
		ctx = eventstore.ContextWithUrgency(ctx)
	}
	defer s.srv.recovered("eventstore.Log.Append", func() { err = errStorePanic })
	return log.Append(ctx, seq, data, seal)
}

var errStorePanic = errors.New("the store panicked")

// stored makes an appended event visible to readers.
func (s *Session) stored(st *stream, seq uint64, log eventstore.Log, size int) (dropped, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.log != log {
		s.relog(st, seq, log)
	}
	st.stored = seq
	st.events++
	st.bytes += int64(size)
	st.wake()
	if s.cause == ErrMoved { //nolint:errorlint // our own, set as it is
		return false, false // it is another process's to drop
	}
	return st.dropped, s.over
}

// relog notes that a stream goes on in another log: the store's, or one in memory because the store failed. Under the lock.
func (s *Session) relog(st *stream, seq uint64, log eventstore.Log) {
	_, local := log.(*localLog)
	var p pass
	switch {
	case local:
		s.step(&core.In{Op: core.Lost, Stream: st.id, Seq: seq}, &p)
	case st.log != nil:
		s.step(&core.In{Op: core.Healed, Stream: st.id, Seq: seq}, &p)
	}
	st.log = log
}

// takeBack gives a sequence back that was not recorded.
func (s *Session) takeBack(st *stream, seq uint64) {
	var p pass
	s.mu.Lock()
	st.last = seq - 1
	s.step(&core.In{Op: core.Full, Stream: st.id, Seq: seq}, &p)
	st.wake() // a reader may have been told to write up to it
	s.mu.Unlock()
	s.finish(&p)
}

func (s *Session) logKey(st *stream) eventstore.Key {
	return eventstore.Key{
		Session: s.id, Stream: string(appendStreamName(make([]byte, 0, streamNameLen), st.id)), Backlog: st.n == 0, Principal: s.principal,
	}
}
