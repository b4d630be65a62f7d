package rejoin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// ask is a request to the client that is not answered yet.
type ask struct {
	call  *Call // it was made in; nil: none
	reply func(json.RawMessage, error)
	st    *stream // that it travels on; nil: none yet
	seq   uint64  // where
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
	err := s.mayAsk(method, params)
	switch {
	case err != nil:
	case len(params) > maxEventBytes:
		err = ErrTooLarge
	case len(params) > 0 && !jsonrpc.Valid(params):
		err = errInvalidParams
	default:
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
	_ = s.notify(c, "notifications/cancelled", withdrawal(id, reason)) // a courtesy
}

// withdrawal is the params of notifications/cancelled.
func withdrawal(id, reason string) json.RawMessage {
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

// withdrawAtEnd has the connections that are there withdraw the questions that they have written, before they end: nothing that is
// recorded from now on is for them. At a shutdown that is so for the standalone stream alone. Under the lock.
func (s *Session) withdrawAtEnd(why core.Reason) {
	for _, id := range s.openAsks(nil) {
		a := s.asks[id]
		if a.st == nil || why == core.Shutdown && a.st.n != 0 {
			continue
		}
		if c := cmp.Or(a.st.conn, a.st.closing); c != nil {
			c.orders.withdraw = append(c.orders.withdraw, question{a.seq, id, causeOf(why)})
			a.st = nil // once
		}
	}
}

// openAsks are the questions of a call, or of the whole session, in the order in which they were asked. Under the lock.
func (s *Session) openAsks(c *Call) (open []string) {
	for id, a := range s.asks {
		if c == nil || a.call == c {
			open = append(open, id)
		}
	}
	slices.SortFunc(open, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return open
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
	open = s.openAsks(c)
	for _, id := range open {
		go s.deliver(s.asks[id], nil, err)
		delete(s.asks, id)
	}
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

// CanAsk reports whether the client offered, in its initialize, to be asked by requests of this method: roots/list, sampling/createMessage,
// elicitation/create (by a form) and tasks/…; a ping is always answered. What this package does not know, such as a method of an extension, may
// be asked: the client says whether it knows it.
func (s *Session) CanAsk(method string) bool { return s.mayAsk(method, nil) == nil }

// mayAsk returns ErrNotOffered for what the client did not offer (basic/lifecycle, "operation", 2025-11-25: only use capabilities that were
// negotiated).
func (s *Session) mayAsk(method string, params json.RawMessage) error {
	for _, path := range neededFor(method, params) {
		if !s.offered(path...) {
			return fmt.Errorf("%w: %s needs %s", ErrNotOffered, method, strings.Join(path, "."))
		}
	}
	return nil
}

// neededFor are the capabilities that a request to the client needs, all of them.
func neededFor(method string, params json.RawMessage) [][]string {
	switch method {
	case "roots/list":
		return [][]string{{"roots"}}
	case "sampling/createMessage":
		need := [][]string{{"sampling"}}
		if hasTools(params) {
			need = append(need, []string{"sampling", "tools"})
		}
		return need
	case "elicitation/create":
		raw, _ := jsonrpc.Field(params, "mode")
		if mode, _ := jsonrpc.Unquote(raw); mode == "url" {
			return [][]string{{"elicitation"}, {"elicitation", "url"}}
		}
		return [][]string{{"elicitation"}, {"elicitation", "form"}}
	case "tasks/list":
		return [][]string{{"tasks"}, {"tasks", "list"}}
	case "tasks/cancel":
		return [][]string{{"tasks"}, {"tasks", "cancel"}}
	case "tasks/get", "tasks/result":
		return [][]string{{"tasks"}}
	}
	return nil
}

// hasTools reports whether a request for sampling lets the model use tools.
func hasTools(params json.RawMessage) bool {
	for _, name := range [...]string{"tools", "toolChoice"} {
		if v, ok := jsonrpc.Field(params, name); ok && string(v) != "null" {
			return true
		}
	}
	return false
}

// offered reports whether the client has a capability, or one within another. One that offers elicitation and says no more offers that by forms.
func (s *Session) offered(path ...string) bool {
	v, ok := jsonrpc.Field([]byte(s.offers), path...)
	switch {
	case ok:
		return string(v) != "null" && string(v) != "false"
	case len(path) == 2 && path[1] == "form":
		return !s.offered(path[0], "url")
	}
	return false
}
