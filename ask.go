package rejoin

import (
	"encoding/json"
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
	in := core.In{Op: core.Emit, Flags: core.Ask}
	if c != nil {
		in.Stream = c.stream
	}
	err := ErrTooLarge
	if len(params) <= maxEventBytes {
		err = s.send(message{in: in, data: jsonrpc.AppendRequest(nil, rawID, method, params), ask: id})
	}
	if err != nil {
		if s.takeAsk(id) != nil {
			go reply(nil, err)
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

// withdrawAll withdraws the questions of a call that is about to be answered: on its stream, and before the answer, after which
// nothing travels there.
func (s *Session) withdrawAll(c *Call) {
	s.mu.Lock()
	var open map[string]*ask
	for id, a := range s.asks {
		if a.call == c {
			if open == nil {
				open = make(map[string]*ask)
			}
			open[id] = a
			delete(s.asks, id)
		}
	}
	s.mu.Unlock()
	for id, a := range open {
		s.withdraw(c, id, "the request was answered")
		go a.reply(nil, ErrEnded)
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
		go a.reply(m.Result, nil)
		return
	}
	go a.reply(nil, clientError(m.Err))
}

// failAsks ends the wait for the answers that a call wants; nil: for all.
func (s *Session) failAsks(c *Call, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.asks {
		if c == nil || a.call == c {
			delete(s.asks, id)
			go a.reply(nil, err)
		}
	}
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
