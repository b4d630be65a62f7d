package rejoin

import (
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// policyFor is the policy of one request.
func (n *Session) policyFor(r *http.Request, m *jsonrpc.Message, mode Mode) core.Policy {
	p := n.srv.cfg.Policy.withDefaults()
	if f := n.srv.cfg.PolicyFor; f != nil {
		p = f(RequestInfo{Method: string(m.Method), Name: nameOf(m), Client: n.clientOf(r.Header), Polls: n.polls(), HTTP: r}, p)
	}
	switch string(m.Method) {
	case "initialize", "ping": // the client may not have its reader ready, and there is nothing to wait for
		if p.Mode == SSE {
			p.Mode = Auto
		}
	}
	if mode != Auto {
		p.Mode = mode
	}
	return p.core()
}

// timeLeft is when a response has to be closed because something outside will cut it: a middleware's deadline on the request's
// context, or the server's WriteTimeout where it cannot be moved. 0: nothing will.
func (s *Server) timeLeft(r *http.Request, out *writer) time.Duration {
	var left time.Duration
	if d, ok := r.Context().Deadline(); ok {
		left = max(time.Until(d), 1)
	}
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 && !out.unbound() {
		s.sayOnce(saidNoDeadline, "rejoin: the response writer has no write deadlines: streams are closed before the server's WriteTimeout",
			"timeout", srv.WriteTimeout)
		if left == 0 || srv.WriteTimeout < left {
			left = srv.WriteTimeout
		}
	}
	if left == 0 {
		return 0
	}
	return max(left-max(left/10, 50*time.Millisecond), time.Millisecond)
}

// nameOf is the name of the thing that a request is about.
func nameOf(m *jsonrpc.Message) string {
	key := "name"
	switch string(m.Method) {
	case "tools/call", "prompts/get":
	case "resources/read":
		key = "uri"
	default:
		return ""
	}
	raw, _ := jsonrpc.Field(m.Params, key)
	name, _ := jsonrpc.Unquote(raw)
	return name
}
