package engine

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Answer gets the client's answer to a question: the result, or the JSON-RPC error (failure), or why there is none (cause). It runs once, on a
// goroutine of its own.
type Answer func(result, failure []byte, cause error)

// ask is a request to the client that is not answered yet.
type ask struct {
	request *Request // it was made in; nil: none
	answer  Answer
	st      *stream // that it travels on; nil: none yet
	seq     uint64  // where
}

// Ask sends a request to the client, in the name of one of its requests; nil: of none. Its id names this process and is never used twice, so
// an answer that comes late or elsewhere cannot be taken for another's. cancel withdraws the question; answer does not run after it.
func (s *Session) Ask(r *Request, method string, params []byte, answer Answer) (cancel func(reason string)) {
	id := s.engine.cfg.Node + "." + strconv.FormatUint(s.engine.lastAsk.Add(1), 10)
	a := &ask{request: r, answer: answer}
	s.mu.Lock()
	if s.asks == nil {
		s.asks = make(map[string]*ask)
	}
	s.asks[id] = a
	s.mu.Unlock()
	m := Message{Op: core.Emit, Flags: core.Ask, ask: id, Data: jsonrpc.AppendRequest(nil, jsonrpc.AppendString(nil, id), method, params)}
	if r != nil {
		m.Stream = r.st.id
	}
	if why := s.Send(m); why != core.NoReason {
		if s.takeAsk(id) != nil {
			go s.deliver(a, nil, nil, s.host.Cause(askFailure(why)))
		}
		return func(string) {}
	}
	return func(reason string) {
		if s.takeAsk(id) != nil {
			s.withdraw(r, id, reason)
		}
	}
}

// askFailure is why a question that went nowhere has no answer: it has no stream, unless there is more to say.
func askFailure(why core.Reason) core.Reason {
	switch why {
	case core.NoRoom, core.Moved, core.Deleted:
		return why
	}
	return core.NoStream
}

// Answered delivers the client's answer, with its result or its error. An answer that is not awaited is dropped: it may have come too late.
func (s *Session) Answered(id string, result, failure []byte) {
	if a := s.takeAsk(id); a != nil {
		go s.deliver(a, result, failure, nil)
	}
}

// withdraw tells the client that its answer is no longer awaited.
func (s *Session) withdraw(r *Request, id, reason string) {
	s.Emit(r, 0, jsonrpc.AppendRequest(nil, nil, "notifications/cancelled", withdrawal(id, reason))) // a courtesy
}

// withdrawal is the params of notifications/cancelled.
func withdrawal(id, reason string) []byte {
	p := jsonrpc.AppendString([]byte(`{"requestId":`), id)
	p = jsonrpc.AppendString(append(p, `,"reason":`...), reason)
	return append(p, '}')
}

// asked notes where a question travels. Under the lock.
func (s *Session) asked(id string, st *stream, seq uint64) {
	if a := s.asks[id]; a != nil {
		a.st, a.seq = st, seq
	}
}

// withdrawAtEnd makes connections withdraw the questions that they have written, before they end: they write nothing that is recorded from now
// on. At a shutdown only the connection of the standalone stream does so. Under the lock.
func (s *Session) withdrawAtEnd(why core.Reason) {
	for _, id := range s.openAsks(nil) {
		a := s.asks[id]
		if a.st == nil || why == core.Shutdown && a.st.n != 0 {
			continue
		}
		if c := cmp.Or(a.st.conn, a.st.closing); c != nil {
			c.orders.withdraw = append(c.orders.withdraw, question{a.seq, id, s.host.Cause(why).Error()})
			a.st = nil // once
		}
	}
}

// openAsks are the questions of a request, or of the whole session, in the order in which they were asked. Under the lock.
func (s *Session) openAsks(r *Request) (open []string) {
	for id, a := range s.asks {
		if r == nil || a.request == r {
			open = append(open, id)
		}
	}
	slices.SortFunc(open, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return open
}

// withdrawAll withdraws questions in the order in which they were asked.
func (s *Session) withdrawAll(r *Request, open []string, reason string) {
	for _, id := range open {
		s.withdraw(r, id, reason)
	}
}

// takeAsk ends the wait for an answer.
func (s *Session) takeAsk(id string) *ask {
	if id == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asks[id]
	delete(s.asks, id)
	return a
}

// failAsks ends the wait for the answers to the questions of a request; nil: to all. It returns the ids of these questions.
func (s *Session) failAsks(r *Request, cause error) (open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open = s.openAsks(r)
	for _, id := range open {
		go s.deliver(s.asks[id], nil, nil, cause)
		delete(s.asks, id)
	}
	return open
}

// deliver calls the app back, on a goroutine that nothing else would recover.
func (s *Session) deliver(a *ask, result, failure []byte, cause error) {
	defer s.recovered("the answer to a question", func() {})
	a.answer(result, failure, cause)
}
