package rejoin

import (
	"math/rand/v2"
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
)

// readGet finds the stream that a GET asks for: the standalone stream, or any that it resumes. Resumption is always a GET, however the
// stream began (SEP-1699).
func (s *Server) readGet(r *http.Request, in *incoming) (f *refusal) {
	in.kind = toListen
	if f = s.readVersion(r); f != nil {
		return f
	}
	if _, stream := accepted(r.Header["Accept"]); !stream {
		return &refuseNoStream
	}
	if in.session, f = s.session(r); f != nil {
		return f
	}
	cursor, one := single(r.Header[cursorHeader])
	if !one {
		return badRequest("two different values of Last-Event-ID")
	}
	in.get = core.In{Op: core.Get, Nonce: rand.Uint64(), Rand: rand.Uint32()} //nolint:gosec // the stream's name is the secret
	if cursor != "" {
		in.get.Flags |= core.HasCursor
		var ok bool
		if in.get.Stream, in.get.Seq, ok = parseEventID(cursor); !ok {
			return refusalOf(core.Unknown)
		}
	}
	return nil
}

// readDelete finds the session that a DELETE ends.
func (s *Server) readDelete(r *http.Request, in *incoming) (f *refusal) {
	in.kind = toEnd
	if f = s.readVersion(r); f == nil {
		in.session, f = s.session(r)
	}
	return f
}

// readVersion refuses a verb that the version of a request does not have, and what is no version.
func (s *Server) readVersion(r *http.Request) *refusal {
	version, one := single(r.Header[versionHeader])
	switch {
	case s.cfg.Eras == Modern, core.IsModern(version) && s.cfg.Eras == Both:
		return refuseLegacyMethod(r.Method)
	case core.IsModern(version):
		return &refuseModern
	case !one:
		return &refuseTwoVersions
	}
	return s.checkLegacy(version)
}

// openGet registers the connection of a GET with its session.
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
