package gosdk

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// question is a request to the client that is not answered yet.
type question struct{ withdraw func(reason string) }

// ask passes a request on to the client. The SDK's pings outside of calls are about the connection, which is rejoin's to watch:
// they are answered at once, since a client that is away is no reason to close its session.
func (c *session) ask(ctx context.Context, m *jsonrpc.Request, inCall bool) {
	answer := func(result json.RawMessage, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, m.ID)
		c.push(&jsonrpc.Response{ID: m.ID, Result: result, Error: toSDK(err)})
	}
	if m.Method == "ping" && !inCall {
		answer(json.RawMessage("{}"), nil)
		return
	}
	q := &question{}
	c.mu.Lock()
	c.asked[m.ID] = q // the answer may come before Ask has returned
	c.mu.Unlock()
	withdraw := c.s.Ask(ctx, m.Method, m.Params, answer)
	c.mu.Lock()
	q.withdraw = withdraw
	c.mu.Unlock()
}

// withdraw takes a request back that the SDK no longer waits for.
func (c *session) withdraw(params json.RawMessage) {
	var p mcp.CancelledParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id := makeID(p.RequestID)
	c.mu.Lock()
	q := c.asked[id]
	delete(c.asked, id)
	var withdraw func(string)
	if q != nil {
		withdraw = q.withdraw
	}
	c.mu.Unlock()
	if withdraw != nil {
		withdraw(p.Reason)
	}
}
