package rejoin

import (
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// policyFor returns the policy of one request. mode is what its client accepts; ModeAuto: anything.
func (s *Session) policyFor(r *http.Request, m *jsonrpc.Message, mode Mode) core.Policy {
	p := s.srv.cfg.Policy.withDefaults()
	if f := s.srv.cfg.PolicyFor; f != nil {
		p = f(RequestInfo{Method: string(m.Method), Name: targetName(m), Client: s.clientOf(r.Header), Polls: s.engine.Polls(), HTTP: r}, p)
	}
	switch string(m.Method) {
	case "initialize", "ping": // the client may not read streams yet, and these answers come at once
		if p.Mode == ModeSSE {
			p.Mode = ModeAuto
		}
	}
	if mode != ModeAuto {
		p.Mode = mode
	}
	return p.core()
}

// modernPolicy returns the policy of a modern request. tasks: it can become a task.
func (srv *Server) modernPolicy(r *http.Request, m *jsonrpc.Message, tasks bool) Policy {
	p := srv.cfg.Policy.withDefaults()
	if f := srv.cfg.PolicyFor; f != nil {
		p = f(RequestInfo{Method: string(m.Method), Name: targetName(m), Client: modernClient(r.Header, m), Tasks: tasks, HTTP: r}, p).withDefaults()
	}
	return p
}

// timeLeft returns how long a response may take, so that it ends before something outside cuts it: a middleware's deadline on the request's
// context, or the WriteTimeout of the http.Server, if that cannot be moved. It leaves a tenth of that time, at least 50 ms, unused. 0: no
// limit.
func (srv *Server) timeLeft(r *http.Request, out interface{ Unbound() bool }) time.Duration {
	var left time.Duration
	if d, ok := r.Context().Deadline(); ok {
		left = max(time.Until(d), 1)
	}
	if hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && hs.WriteTimeout > 0 && !out.Unbound() {
		srv.warnOnce(warnNoDeadline, "rejoin: the response writer has no write deadlines: streams are closed before the server's WriteTimeout",
			"timeout", hs.WriteTimeout)
		if left == 0 || hs.WriteTimeout < left {
			left = hs.WriteTimeout
		}
	}
	if left == 0 {
		return 0
	}
	return max(left-max(left/10, 50*time.Millisecond), time.Millisecond)
}

// targetName returns the name of the tool, prompt or resource that a request is about, or "".
func targetName(m *jsonrpc.Message) string {
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
