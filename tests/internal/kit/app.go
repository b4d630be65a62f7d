package kit

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin"
)

// Ends records how the calls and the sessions of an app end.
type Ends struct {
	mu        sync.Mutex
	Cancelled []error // the causes of the calls' contexts
	Ended     []error // what Ended was called with
}

// App is the app whose ends are recorded. It answers initialize and no other request.
func (e *Ends) App() *Fake {
	return &Fake{
		OnRequest: func(call *rejoin.Call) {
			if call.Method() == "initialize" {
				Accept(call)
				return
			}
			context.AfterFunc(call.Context(), func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.Cancelled = append(e.Cancelled, context.Cause(call.Context()))
			})
		},
		OnEnded: func(cause error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.Ended = append(e.Ended, cause)
		},
	}
}

// Tool is an app that answers every request except initialize and ping with the result of f, unchanged; {} for nil.
func Tool(f func(ctx context.Context, h *rejoin.Handle) (any, error)) rejoin.App {
	return rejoin.NewApp(Info, RawResults(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		return f(ctx, rejoin.HandleFromContext(ctx))
	}))
}

// Info describes a server that has tools.
var Info = rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}

// RawResults is h without the conversion of its results into results of tools, for tests that are not about that.
func RawResults(h rejoin.Handler) rejoin.Handler {
	return func(ctx context.Context, r *rejoin.Request) (any, error) {
		result, err := h(ctx, r)
		if err != nil {
			return nil, err
		}
		if result == nil {
			return struct{}{}, nil
		}
		raw, err := json.Marshal(result)
		return json.RawMessage(raw), err
	}
}

// Fake is an app made of functions. A function that is nil succeeds; requests are then answered by Accept.
type Fake struct {
	OnOpen         func(*http.Request, *rejoin.Session) (rejoin.AppSession, error)
	OnRequest      func(*rejoin.Call)
	OnNotification func(*rejoin.Notification)
	OnEnded        func(error)
}

func (a *Fake) Open(r *http.Request, s *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	if a.OnOpen != nil {
		return a.OnOpen(r, s)
	}
	return a, nil
}

func (a *Fake) Request(c *rejoin.Call) {
	switch {
	case a.OnRequest != nil:
		a.OnRequest(c)
	default:
		Accept(c)
	}
}

// Accept answers any request: initialize with the client's own version, every other one with {}.
func Accept(c *rejoin.Call) {
	var params struct{ ProtocolVersion string }
	_ = json.Unmarshal(c.Params(), &params)
	if c.Method() == "initialize" {
		_ = c.Reply(json.RawMessage(`{"protocolVersion":"` + params.ProtocolVersion + `","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`))
		return
	}
	_ = c.Reply(nil)
}

func (a *Fake) Notification(n *rejoin.Notification) {
	if a.OnNotification != nil {
		a.OnNotification(n)
	}
}

func (a *Fake) Ended(cause error) {
	if a.OnEnded != nil {
		a.OnEnded(cause)
	}
}

// BothEras is an app with a handler for the modern era.
type BothEras struct {
	*Fake
	Handler http.Handler
}

func (a BothEras) Modern() http.Handler { return a.Handler }
