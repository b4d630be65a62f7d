package rejoin

import (
	"math/rand/v2"
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
)

// serveGet opens the standalone stream, or resumes any stream: resumption is always a GET, however the stream began (SEP-1699).
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request) {
	if f, ok := s.checkGet(r); !ok {
		s.refuse(w, f)
		return
	}
	n, f := s.session(r)
	if n == nil {
		s.refuse(w, f)
		return
	}
	cursor, one := single(r.Header[cursorHeader])
	if !one {
		s.refuse(w, badRequest("two different values of Last-Event-ID"))
		return
	}
	in := core.In{Op: core.Get, Nonce: rand.Uint64(), Rand: rand.Uint32()} //nolint:gosec // the stream's name is the secret
	if cursor != "" {
		in.Flags |= core.HasCursor
		var ok bool
		if in.Stream, in.Seq, ok = parseEventID(cursor); !ok {
			s.refuse(w, refusalOf(core.Unknown))
			return
		}
	}
	n.serveGet(w, r, in)
}

func (s *Server) checkGet(r *http.Request) (refusal, bool) {
	version := r.Header.Get(versionHeader)
	switch {
	case s.cfg.Eras == Modern, core.IsModern(version) && s.cfg.Eras == Both:
		return refuseLegacyMethod(http.MethodGet), false
	case core.IsModern(version):
		return refuseModern, false
	}
	if f, ok := checkVersion(version); !ok {
		return f, false
	}
	if _, stream := accepted(r.Header["Accept"]); !stream {
		return refusal{status: http.StatusNotAcceptable, code: CodeInvalidRequest, message: "Accept must allow text/event-stream"}, false
	}
	return refusal{}, true
}

func (n *Session) serveGet(w http.ResponseWriter, r *http.Request, in core.In) {
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
	n.mu.Unlock()
	n.finish(&p)
	defer c.close()
	how, why := c.run(r.Context())
	if how != refused {
		return
	}
	if why == core.NothingLeft {
		// The SSE standard's way to say: do not reconnect.
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	n.srv.refuse(w, refusalOf(why))
}

// serveDelete ends a session.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) {
	version := r.Header.Get(versionHeader)
	f, ok := checkVersion(version)
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
	w.WriteHeader(http.StatusNoContent)
}
