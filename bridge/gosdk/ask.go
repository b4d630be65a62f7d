package gosdk

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// question is a request to the client that is not answered yet.
type question struct{ withdraw func(reason string) } // nil until AskFunc has returned

// ask sends a request to the client. The SDK's pings outside of calls check the connection, which rejoin does itself. They are answered at
// once: the SDK would close the session of a client that is away.
func (s *session) ask(ctx context.Context, m *jsonrpc.Request, inCall bool) {
	answer := func(result json.RawMessage, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.questions, m.ID)
		s.enqueue(&jsonrpc.Response{ID: m.ID, Result: result, Error: toSDK(err)})
	}
	if m.Method == "ping" && !inCall {
		answer(json.RawMessage("{}"), nil)
		return
	}
	q := &question{}
	s.mu.Lock()
	s.questions[m.ID] = q // the answer may come before AskFunc has returned
	s.mu.Unlock()
	withdraw := s.session.AskFunc(ctx, m.Method, m.Params, answer)
	s.mu.Lock()
	q.withdraw = withdraw
	s.mu.Unlock()
}

// withdraw withdraws a request to the client: the SDK does not wait for its answer any more.
func (s *session) withdraw(params json.RawMessage) {
	var p mcp.CancelledParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id := makeID(p.RequestID)
	s.mu.Lock()
	q := s.questions[id]
	delete(s.questions, id)
	var withdraw func(string)
	if q != nil {
		withdraw = q.withdraw
	}
	s.mu.Unlock()
	if withdraw != nil {
		withdraw(p.Reason)
	}
}
