package rejoin

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// ask is a request to the client that is not answered yet.
type ask struct {
	call  *Call // it was made in; nil: none
	reply func(json.RawMessage, error)
}

// ask sends a request to the client. Its id names this process and is never used twice, so an answer that comes late or elsewhere
// cannot be taken for another's.
func (s *Session) ask(c *Call, method string, params json.RawMessage, reply func(json.RawMessage, error)) (cancel func(string)) {
	id := s.srv.cfg.Node + "." + strconv.FormatUint(s.srv.lastAsk.Add(1), 10)
	a := &ask{call: c, reply: reply}
	s.mu.Lock()
	if s.asks == nil {
		s.asks = make(map[string]*ask)
	}
	s.asks[id] = a
	s.mu.Unlock()
	rawID := jsonrpc.AppendString(nil, id)
	m := message{op: core.Emit, flags: core.Ask, ask: id}
	if c != nil {
		m.stream = c.stream
	}
	err := ErrTooLarge
	if len(params) <= maxEventBytes {
		m.data = jsonrpc.AppendRequest(nil, rawID, method, params)
		err = s.send(m)
	}
	if err != nil {
		if s.takeAsk(id) != nil {
			go s.deliver(a, nil, err)
		}
		return func(string) {}
	}
	return func(reason string) {
		if s.takeAsk(id) != nil {
			s.withdraw(c, id, reason)
		}
	}
}

// withdraw tells the client that nobody waits for its answer any more.
func (s *Session) withdraw(c *Call, id, reason string) {
	p := jsonrpc.AppendString([]byte(`{"requestId":`), id)
	p = jsonrpc.AppendString(append(p, `,"reason":`...), reason)
	_ = s.notify(c, "notifications/cancelled", append(p, '}')) // a courtesy
}

// withdrawAll withdraws questions in the order in which they were asked.
func (s *Session) withdrawAll(c *Call, open []string, reason string) {
	for _, id := range open {
		s.withdraw(c, id, reason)
	}
}

// takeAsk ends the wait for an answer.
func (s *Session) takeAsk(id string) *ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asks[id]
	delete(s.asks, id)
	return a
}

// answered delivers the client's answer. One that nobody waits for is dropped: it may have come too late.
func (s *Session) answered(m *jsonrpc.Message) {
	id, ok := jsonrpc.Unquote(m.ID)
	if !ok {
		return
	}
	a := s.takeAsk(id)
	if a == nil {
		return
	}
	if m.Kind == jsonrpc.Result {
		go s.deliver(a, m.Result, nil)
		return
	}
	go s.deliver(a, nil, clientError(m.Err))
}

// failAsks ends the wait for the answers that a call wants; nil: for all. It returns the questions that the client still has before it.
func (s *Session) failAsks(c *Call, err error) (open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.asks {
		if c == nil || a.call == c {
			delete(s.asks, id)
			open = append(open, id)
			go s.deliver(a, nil, err)
		}
	}
	slices.SortFunc(open, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return open
}

// deliver calls the app back, on a goroutine that has nobody else to recover it.
func (s *Session) deliver(a *ask, answer json.RawMessage, err error) {
	defer s.srv.recovered("a reply of Session.Ask", func() {})
	a.reply(answer, err)
}

// clientError decodes the error of a client's answer.
func clientError(raw []byte) *Error {
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return Errorf(CodeInternal, "the client's error is malformed")
	}
	return &Error{Code: e.Code, Message: e.Message, Data: e.Data}
}
