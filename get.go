package rejoin

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// readGet finds the stream that a GET asks for: with a Last-Event-ID the stream that it resumes, else the standalone stream. Every stream
// is resumed by a GET, also the stream of a POST (SEP-1699).
func (srv *Server) readGet(r *http.Request, in *incoming) (f *refusal) {
	in.kind = kindGet
	if f = srv.readVersion(r); f != nil {
		return f
	}
	if _, stream := door.Accepted(r.Header["Accept"]); !stream {
		return &refuseNoStream
	}
	if f = srv.sessionOf(r, in); f != nil && !f.hold {
		return f
	}
	cursor, one := door.Single(r.Header[cursorHeader])
	if !one {
		return badRequest("two different values of Last-Event-ID")
	}
	if in.get.Resumes = cursor != "" && !engine.IsHeldID(cursor); in.get.Resumes {
		session, _ := door.Single(r.Header[sessionHeader])
		var ok bool
		if in.get.Stream, in.get.Seq, ok = engine.ParseEventID(session, cursor); !ok {
			return refusalOf(core.Unknown)
		}
	}
	in.cursor = cursor
	if f != nil {
		in.kind = kindHeld
	}
	return nil
}

// readDelete finds the session that a DELETE ends.
func (srv *Server) readDelete(r *http.Request, in *incoming) (f *refusal) {
	in.kind = kindDelete
	if f = srv.readVersion(r); f == nil {
		f = srv.sessionOf(r, in)
	}
	return f
}

// readVersion refuses a GET or DELETE whose version header names a version without that method, or an unknown version.
func (srv *Server) readVersion(r *http.Request) *refusal {
	version, one := door.Single(r.Header[versionHeader])
	switch {
	case srv.cfg.Eras == EraModern, core.IsModern(version) && srv.cfg.bothEras():
		return refuseLegacyMethod(r.Method)
	case core.IsModern(version):
		return &refuseModern
	case !one:
		return &refuseTwoVersions
	}
	return srv.checkLegacy(version)
}

// attachGet attaches the connection of a GET to its stream.
func (s *Session) attachGet(w http.ResponseWriter, r *http.Request, in *incoming) *engine.Conn {
	out := respond.New(w, s.srv.cfg.WriteTimeout)
	if !out.CanFlush() {
		s.srv.logNoFlush(r)
	}
	get := in.get
	get.Way = s.way(r, in, &out)
	c, served := s.engine.Get(out, get)
	if served {
		s.markUsed()
	}
	return c
}
