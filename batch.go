package rejoin

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// readBatch reads an array of messages (JSON-RPC 2.0, section 6). Only version 2025-03-26 has batches. Its messages are kept
// only after their session was found: parsed they take ten times the size of the body.
func (srv *Server) readBatch(r *http.Request, in *incoming) (f *refusal) {
	version, one := door.Single(r.Header[versionHeader])
	switch modern := core.IsModern(version); {
	case !one:
		return &refuseTwoVersions
	case modern && in.forwarded:
		return &refuseMisdirected
	case modern && srv.cfg.Eras == EraLegacy:
		return &refuseModern
	case modern:
		return &refuseBatch
	}
	if f = srv.checkLegacy(version); f != nil {
		return f
	}
	if f = srv.sessionOf(r, in); f != nil {
		if srv.cfg.bothEras() && hasModern(in.body) { // a modern client has no session: tell it what is wrong instead
			return &refuseBatch
		}
		return f
	}
	if in.place != nil { // its owner reads the batch
		in.kind = kindForeign
		in.mode, _ = acceptedMode(r) // if there is none, the owner says so
		return nil
	}
	if v, _ := core.Find(in.session.Version()); !v.Batches {
		return &refuseBatch
	}
	for m, err := range jsonrpc.Batch(in.body, maxJSONDepth) {
		switch {
		case err != nil:
			return malformed(r, err)
		case len(in.batch) == maxBatch:
			return &refuseLongBatch
		}
		in.batch = append(in.batch, m)
	}
	return srv.classifyBatch(r, in)
}

// classifyBatch checks the messages of a batch and sets in.kind.
func (srv *Server) classifyBatch(r *http.Request, in *incoming) (f *refusal) {
	requests, answers := 0, 0
	for i := range in.batch {
		switch m := &in.batch[i]; {
		case isModern(m) && srv.cfg.bothEras():
			return &refuseBatch
		case isModern(m):
			return &refuseModern
		case len(m.ID) > maxIDBytes:
			return &refuseLongID
		case m.Kind == jsonrpc.Notification:
		case m.Kind != jsonrpc.Request:
			answers++
		case string(m.Method) == "initialize":
			return badRequest("initialize must not be part of a batch")
		default:
			requests++
		}
	}
	switch {
	case requests == 0:
		in.kind = kindNotification
		return nil
	case answers > 0:
		return badRequest("requests and responses must not be in one batch")
	}
	in.kind, in.id = kindRequest, firstRequest(in.batch).ID
	in.mode, f = acceptedMode(r)
	return f
}

// hasModern reports whether one of the first maxBatch messages of a batch belongs to the modern era. That era has no batches.
func hasModern(body []byte) bool {
	read := 0
	for m, err := range jsonrpc.Batch(body, maxJSONDepth) {
		if read++; err != nil || read > maxBatch {
			return false
		}
		if isModern(&m) {
			return true
		}
	}
	return false
}

// firstRequest returns the first request of a POST. Its method and id stand for the whole batch where only one has a place.
func firstRequest(ms []jsonrpc.Message) *jsonrpc.Message {
	for i := range ms {
		if ms[i].Kind == jsonrpc.Request {
			return &ms[i]
		}
	}
	return nil
}
