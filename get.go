package rejoin

import (
	"math/rand/v2"
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
)

// serveGet opens the standalone stream, or resumes any stream: resumption is always a GET, however the stream began (SEP-1699).
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request) {
	c := s.openGet(w, r)
	if c == nil {
		return
	}
	defer c.close()
	if how, why := c.run(r.Context()); how == refused {
		s.refuseGet(w, why)
	}
}

func (s *Server) refuseGet(w http.ResponseWriter, why core.Reason) {
	if why == core.NothingLeft {
		// The SSE standard's way to say: do not reconnect.
		w.Header().Set("Content-Type", "text/event-stream")
		s.empty(w, http.StatusNoContent)
		return
	}
	s.refuse(w, refusalOf(why))
}

// openGet finds the session of a GET, and registers the connection with it. Nil: it was refused.
func (s *Server) openGet(w http.ResponseWriter, r *http.Request) *conn {
	if f, ok := s.checkGet(r); !ok {
		s.refuse(w, f)
		return nil
	}
	n, f := s.session(r)
	if n == nil {
		s.refuse(w, f)
		return nil
	}
	cursor, one := single(r.Header[cursorHeader])
	if !one {
		s.refuse(w, badRequest("two different values of Last-Event-ID"))
		return nil
	}
	in := core.In{Op: core.Get, Nonce: rand.Uint64(), Rand: rand.Uint32()} //nolint:gosec // the stream's name is the secret
	if cursor != "" {
		in.Flags |= core.HasCursor
		var ok bool
		if in.Stream, in.Seq, ok = parseEventID(cursor); !ok {
			s.refuse(w, refusalOf(core.Unknown))
			return nil
		}
	}
	return n.openGet(w, r, &in)
}

func (s *Server) checkGet(r *http.Request) (refusal, bool) {
	version, _ := single(r.Header[versionHeader])
	switch {
	case s.cfg.Eras == Modern, core.IsModern(version) && s.cfg.Eras == Both:
		return refuseLegacyMethod(http.MethodGet), false
	case core.IsModern(version):
		return refuseModern, false
	}
	if f, ok := s.checkVersion(r); !ok {
		return f, false
	}
	if _, stream := accepted(r.Header["Accept"]); !stream {
		return refusal{status: http.StatusNotAcceptable, code: CodeInvalidRequest, message: "Accept must allow text/event-stream"}, false
	}
	return refusal{}, true
}

func (n *Session) openGet(w http.ResponseWriter, r *http.Request, in *core.In) *conn {
	out := newWriter(w, n.srv.cfg.WriteTimeout)
	if !out.canFlush() {
		in.Flags |= core.NoFlush
		n.srv.logNoFlush(r)
	}
	in.Dur = n.srv.timeLeft(r, &out)
	var p pass
	n.mu.Lock()
	c := n.openConn(out)
	in.Conn = c.id
	c.orders.acked = in.Flags&core.HasCursor != 0
	n.step(in, &p)
	if c.orders.acked && c.orders.head && c.orders.from != in.Seq { // a cursor past the end says nothing of what is there
		c.orders.acked = false
		n.srv.stats.expired.Add(1)
	}
	served := c.orders.refuse == core.NoReason || c.orders.refuse == core.NothingLeft
	if n.m.Running() == 0 { // it is the standalone stream's, and that may be all that happens for long
		n.outs = nil
	}
	n.mu.Unlock()
	n.finish(&p)
	if served {
		n.heard()
	}
	return c
}

// serveDelete ends a session.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) {
	version, _ := single(r.Header[versionHeader])
	f, ok := s.checkVersion(r)
	switch {
	case s.cfg.Eras == Modern, core.IsModern(version) && s.cfg.Eras == Both:
		f, ok = refuseLegacyMethod(http.MethodDelete), false
	case core.IsModern(version):
		f, ok = refuseModern, false
	}
	if !ok {
		s.refuse(w, f)
		return
	}
	n, f := s.session(r)
	if n == nil {
		s.refuse(w, f)
		return
	}
	n.end(core.Deleted)
	s.empty(w, http.StatusNoContent)
}
