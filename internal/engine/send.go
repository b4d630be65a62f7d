package engine

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Message is one JSON-RPC message on its way to a log: what an Emit or Reply needs, and nothing else, for it lies on the stacks of tools.
type Message struct {
	Op     core.Op
	Flags  core.Flags
	Stream core.StreamID // of the request that it was made in
	ID     string        // of the request that it answers, as the client wrote it
	Data   []byte
	ask    string // the id of a request to the client
}

func (m *Message) in() core.In { return core.In{Op: m.Op, Flags: m.Flags, Stream: m.Stream, ID: m.ID} }

// nowhere is why a message goes nowhere, as its sender is told: what has ended for a message of the app's own is the session.
func (m *Message) nowhere(why core.Reason) core.Reason {
	if why == core.Ended && m.Op == core.Emit {
		return core.Deleted
	}
	return why
}

// Emit sends a notification in the name of a request; nil: of none.
func (s *Session) Emit(r *Request, flags core.Flags, data []byte) core.Reason {
	m := Message{Op: core.Emit, Flags: flags, Data: data}
	if r != nil {
		m.Stream = r.st.id
		if r.task {
			m.Flags |= core.Augmented
		}
	}
	return s.Send(m)
}

// Send takes a message to the stream that it belongs to. The messages of one stream are appended one at a time: a sender that finds no other
// appending does it, also for the messages that come meanwhile, whose senders return at once. So a slow store delays, and never reorders.
//
// Its way: begin (routed and stepped under the lock, or put into the queue), carry (appended without the lock, which wakes the reader), then
// next (the queue's first, stepped under the lock), until the queue is empty.
//
// Send returns why the message went nowhere: NoRoom, Moved, Deleted (the session ended while it was appended), or the machine's reason.
// A message that had to wait for its turn returns NoReason; if it fails later, that is reported, or is the answer to its question.
func (s *Session) Send(m Message) core.Reason {
	var p pass
	st, why := s.begin(&m, &p)
	if st == nil {
		s.finish(&p)
		return why
	}
	why = s.carry(&m, &p)
	var moved []Message
	for s.next(st, &m, &p, &moved) {
		s.unsent(&m, s.carry(&m, &p))
	}
	for i := range moved {
		s.unsent(&moved[i], s.Send(moved[i]))
	}
	return why
}

// begin routes a message, and steps it if it is its turn: then it returns the stream, whose turn is the caller's until next gives it back.
// Otherwise the message waits in the queue, or goes nowhere.
func (s *Session) begin(m *Message, p *pass) (*stream, core.Reason) {
	in := m.in()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m.Route(&in)
	if i < 0 {
		s.stepMessage(&in, m, p)
		return nil, m.nowhere(p.discarded)
	}
	st := s.streams[i]
	if !st.appending {
		st.appending = true
		s.stepMessage(&in, m, p)
		return st, core.NoReason
	}
	w := st.wait()
	if m.Op != core.Reply && w.queued+len(m.Data) > maxQueuedBytes {
		return nil, core.NoRoom
	}
	w.queue, w.queued = append(w.queue, *m), w.queued+len(m.Data)
	return nil, core.NoReason
}

// next steps the first message of the queue, and puts it into m. If there is none, it gives the turn back and returns false. A message whose
// request has ended while it waited belongs to another stream: it goes to moved.
func (s *Session) next(st *stream, m *Message, p *pass, moved *[]Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := st.pending; w != nil && len(w.queue) > 0; {
		*m = w.queue[0]
		w.queue[0] = Message{}
		w.queue, w.queued = w.queue[1:], w.queued-len(m.Data)
		in := m.in()
		if i := s.m.Route(&in); i >= 0 && s.streams[i] != st {
			*moved = append(*moved, *m)
			continue
		}
		*p = pass{}
		s.stepMessage(&in, m, p)
		return true
	}
	st.appending = false
	if w := st.pending; w != nil && len(w.held) == 0 {
		st.pending = nil
	}
	return false
}

// carry appends a message where the machine has said, and does what else its step asked for.
func (s *Session) carry(m *Message, p *pass) core.Reason {
	why := m.nowhere(p.discarded)
	if p.record != nil {
		why = s.append(p.record, p.seq, m.Data, p.seal, m.ask != "")
	}
	s.finish(p)
	return why
}

// unsent tells of a message that had to wait for its turn, if it went nowhere. A message that no client can read is not missed.
func (s *Session) unsent(m *Message, why core.Reason) {
	if why == core.NoReason {
		return
	}
	if m.ask != "" {
		if a := s.takeAsk(m.ask); a != nil {
			go s.deliver(a, nil, nil, s.host.Cause(askFailure(why)))
		}
		return
	}
	missed := why == core.NoRoom || why == core.Moved || why == core.Deleted
	if missed || m.Op == core.Reply && why != core.Unreachable {
		s.host.Report(Event{Kind: Unsent, Err: s.host.Cause(why)})
	}
}

// append puts an event into the store and makes it visible to readers. urgent: it is a question. It is called without the lock, by the sender
// whose turn it is.
func (s *Session) append(st *stream, seq uint64, data []byte, seal, urgent bool) core.Reason {
	log, err := s.record(st, seq, data, seal, urgent)
	if errors.Is(err, eventstore.ErrFull) && !seal && s.press(core.In{Op: core.Press, Stream: st.id}) {
		log, err = s.record(st, seq, data, seal, urgent)
	}
	switch {
	case err == nil:
	case errors.Is(err, eventstore.ErrFenced):
		s.End(core.Moved, nil)
		return core.Moved
	case errors.Is(err, errDropped): // it ended while we appended
		s.takeBack(st, seq)
		return core.Deleted
	default:
		s.takeBack(st, seq)
		s.host.Report(Event{Kind: Full})
		return core.NoRoom
	}
	dropped, over := s.stored(st, seq, log, len(data))
	if dropped { // while we appended, when the log could not be known to whoever dropped the stream
		s.dropLog(log)
	}
	if over {
		s.dropSession()
	}
	return core.NoReason
}

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
	if s.over == core.Moved {
		return false, false // it is another process's to drop
	}
	return st.dropped, s.over != core.NoReason
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
