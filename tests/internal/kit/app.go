package kit

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin"
)

// Ends collects what an app is told.
type Ends struct {
	mu        sync.Mutex
	Cancelled []error // by the contexts of its calls
	Ended     []error
}

// App is the app that is told.
func (c *Ends) App() *Fake {
	return &Fake{
		OnRequest: func(call *rejoin.Call) {
			if call.Method() == "initialize" {
				Accept(call)
				return
			}
			context.AfterFunc(call.Context(), func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.Cancelled = append(c.Cancelled, context.Cause(call.Context()))
			})
		},
		OnEnded: func(cause error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.Ended = append(c.Ended, cause)
		},
	}
}

// Tool is an app whose requests, initialize and ping aside, are all answered by f: with its result as it is, and {} for nil.
func Tool(f func(ctx context.Context, h *rejoin.Handle) (any, error)) rejoin.App {
	return rejoin.NewApp(Info, AsItIs(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		return f(ctx, rejoin.HandleFromContext(ctx))
	}))
}

// Info announces tools.
var Info = rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}

// AsItIs is h with its results as they are, where rejoin would make tools' results of them: for tests that look at other things.
func AsItIs(h rejoin.Handler) rejoin.Handler {
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

// Fake is an app made of functions. Where one is nil, all goes well: requests are answered with {}.
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

func (a *Fake) Modern() http.Handler { return nil }

func (a *Fake) Request(c *rejoin.Call) {
	switch {
	case a.OnRequest != nil:
		a.OnRequest(c)
	default:
		Accept(c)
	}
}

// Accept answers any request, initialize with the client's own version.
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
