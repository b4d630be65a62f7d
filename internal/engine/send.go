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
	chore  chore  // not a message, but something to do in its turn
	waited bool   // for room in the queue
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
// next (the queue's first, stepped under the lock), until the queue is empty. Notifications that have waited in the queue are appended together if
// the store takes time.
//
// In a cluster a sender that is faster than the store does not wait for each append: a goroutine appends its notification, and those that come meanwhile
// together. See ahead.go.
//
// Send returns why the message went nowhere: NoRoom, Moved, Deleted (the session ended while it was appended), or the machine's reason.
// A message that had to wait for its turn, or in a cluster for the store, returns NoReason; if it fails later, that is reported, or is the answer to
// its question.
func (s *Session) Send(m Message) core.Reason {
	var p pass
	st, why := s.begin(&m, &p)
	if why == crowded {
		s.makeWay(st)
		m.waited = true
		st, why = s.begin(&m, &p)
	}
	if st == nil {
		s.finish(&p)
		return why
	}
	if why != ahead {
		why = s.carry(&m, &p, false)
	}
	if why == away || why == ahead {
		s.carryLater(st, m, p)
		return core.NoReason
	}
	s.drainQueue(st, &m, &p, false)
	return why
}

// drainQueue sends the messages that wait in the queue of a stream, and gives its turn back. m and p are for its use.
func (s *Session) drainQueue(st *stream, m *Message, p *pass, mayWait bool) {
	var moved []Message
	for s.next(st, m, p, &moved) {
		why := s.carry(m, p, mayWait)
		if why == away {
			s.carryLater(st, *m, *p)
			break
		}
		s.unsent(m, why)
	}
	for i := range moved {
		s.unsent(&moved[i], s.Send(moved[i]))
	}
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
		if p.record == st && s.sendsAhead(st, m) {
			return st, ahead
		}
		return st, core.NoReason
	}
	w := st.wait()
	if !m.waited && !st.away && w.isFull() && s.mayGoAhead(m) {
		return st, crowded
	}
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
		w.letIn()
		w.shift(m)
		*p = pass{of: st}
		if m.chore != noChore {
			return true
		}
		in := m.in()
		if i := s.m.Route(&in); i >= 0 && s.streams[i] != st {
			*moved = append(*moved, *m)
			continue
		}
		s.stepMessage(&in, m, p)
		if s.mayBatch(st, m, p) {
			s.fillBatch(st, w, p, len(m.Data))
		}
		return true
	}
	st.appending = false
	if w := st.pending; w != nil && len(w.held) == 0 && w.quickUntil == 0 {
		st.pending = nil
	}
	if s.engine.draining.Load() {
		s.engine.Notify() // the drain may have waited for this alone
	}
	return false
}

// shift takes the first message out of the queue.
func (w *pending) shift(m *Message) {
	*m = w.queue[0]
	w.queue[0] = Message{}
	w.queue, w.queued = w.queue[1:], w.queued-len(m.Data)
	w.single = max(w.single-1, 0)
}

// maxSentBytes bounds what is appended together, unless one event is larger.
const maxSentBytes = 256 << 10

// batched is a message that is appended together with others.
type batched struct {
	m Message
	p pass
}

// mayBatch reports whether messages that wait may be appended together with m. A store that never waits has nothing to gain. Under the lock.
func (s *Session) mayBatch(st *stream, m *Message, p *pass) bool {
	return !s.engine.instant && m.Op == core.Emit && p.record == st && !p.seal && st.pending.single == 0
}

// fillBatch steps messages of the queue that are to be appended together with the one of p, which has size bytes. A response is not among them: if
// the store has no room for all, the numbers of the others can be given back. Under the lock.
func (s *Session) fillBatch(st *stream, w *pending, p *pass, size int) {
	for len(w.queue) > 0 && len(p.batch) < maxBatch-1 {
		first := &w.queue[0]
		in := first.in()
		size += len(first.Data)
		if first.chore != noChore || first.Op != core.Emit || size > maxSentBytes {
			return
		}
		if i := s.m.Route(&in); i < 0 || s.streams[i] != st {
			return
		}
		var b batched
		w.shift(&b.m)
		s.stepMessage(&in, &b.m, &b.p)
		p.batch = append(p.batch, b)
	}
}

// carry appends a message where the machine has said, with those that are appended together with it, and does what else their steps asked for. away:
// the store does not answer; nothing was done yet.
func (s *Session) carry(m *Message, p *pass, mayWait bool) core.Reason {
	if m.chore != noChore {
		s.doChore(p.of, m.chore)
		return core.NoReason
	}
	why := m.nowhere(p.discarded)
	if p.record != nil {
		if why = s.append(m, p, mayWait); why == away {
			return away
		}
	}
	s.finish(p)
	for i := range p.batch {
		s.finish(&p.batch[i].p)
	}
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

// append puts the event of a step into the store, with those that are appended together with it, and makes them visible to readers. It is called
// without the lock, by the sender whose turn it is. away: see carry.
func (s *Session) append(m *Message, p *pass, mayWait bool) core.Reason {
	st, seal, urgent := p.record, p.seal, m.ask != ""
	if st.single == nil {
		st.single = batches.Get().(*[1][]byte) //nolint:forcetypeassert // the pool holds nothing else
	}
	one := st.single
	one[0] = m.Data
	events, size := one[:], len(m.Data)
	for i := range p.batch {
		b := &p.batch[i]
		events, size, urgent = append(events, b.m.Data), size+len(b.m.Data), urgent || b.m.ask != ""
	}
	began := s.engine.clock()
	log, err := s.record(st, p.seq, events, seal, urgent, mayWait)
	if errors.Is(err, eventstore.ErrFenced) && s.regain() {
		log, err = s.record(st, p.seq, events, seal, urgent, mayWait)
	}
	if errors.Is(err, eventstore.ErrFull) && !seal && s.press(core.In{Op: core.Press, Stream: st.id}) {
		log, err = s.record(st, p.seq, events, seal, urgent, mayWait)
	}
	switch one[0] = nil; {
	case err != nil: // after a panic, who knows what still uses it
		st.single = nil
	case seal:
		st.single = nil
		batches.Put(one)
	}
	switch {
	case err == nil:
	case errors.Is(err, errAway):
		return away
	case errors.Is(err, eventstore.ErrFenced):
		s.End(core.Moved, nil)
		return core.Moved
	case errors.Is(err, errDropped): // it ended while we appended
		s.takeBack(st, p.seq, len(events))
		return core.Deleted
	case len(events) > 1: // perhaps there is room for some of them
		s.takeBack(st, p.seq, len(events))
		s.requeue(st, m, p)
		return core.NoReason
	default:
		s.takeBack(st, p.seq, 1)
		s.host.Report(Event{Kind: Full})
		return core.NoRoom
	}
	if s.mayGoAhead(m) {
		s.noteSpeed(st, began)
	}
	dropped, over := s.stored(st, p.seq, len(events), log, size)
	if dropped { // while we appended, when the log could not be known to whoever dropped the stream
		s.dropLog(log)
	}
	if over {
		s.dropSession()
	}
	return core.NoReason
}

// requeue puts messages that were to be appended together back into the queue, in front of the others, to be appended one by one.
func (s *Session) requeue(st *stream, m *Message, p *pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := []Message{*m}
	for i := range p.batch {
		again = append(again, p.batch[i].m)
	}
	w := st.wait()
	w.single = len(again)
	for i := range again {
		w.queued += len(again[i].Data)
	}
	w.queue = append(again, w.queue...)
}

// stored makes n appended events, from seq on, visible to readers.
func (s *Session) stored(st *stream, seq uint64, n int, log eventstore.Log, size int) (dropped, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.log != log {
		s.relog(st, seq, log)
	}
	st.stored = seq + uint64(n) - 1 //nolint:gosec // at least one
	st.events += uint32(n)          //nolint:gosec // at most maxBatch
	st.bytes += int64(size)
	st.wake()
	if s.moved() {
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
	if !local && s.owner != nil && !st.begun {
		s.noteBegun(st, &p)
	}
}

// takeBack gives n numbers back, from seq on, whose events were not recorded.
func (s *Session) takeBack(st *stream, seq uint64, n int) {
	var p pass
	s.mu.Lock()
	for last := seq + uint64(n) - 1; last >= seq; last-- { //nolint:gosec // at least one
		st.last = last - 1
		s.step(&core.In{Op: core.Full, Stream: st.id, Seq: last}, &p)
	}
	st.wake() // a reader may have been told to write up to it
	s.mu.Unlock()
	s.finish(&p)
}
