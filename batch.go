package rejoin

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// readBatch finds out what an array of messages wants, which only 2025-03-26 knows (JSON-RPC 2.0, section 6). Of one that has no session
// nothing is kept.
func (s *Server) readBatch(r *http.Request, in *incoming) (f *refusal) {
	version, one := single(r.Header[versionHeader])
	switch modern := core.IsModern(version); {
	case !one:
		return &refuseTwoVersions
	case modern && s.cfg.Eras == Legacy:
		return &refuseModern
	case modern:
		return &refuseBatch
	}
	if f = s.checkLegacy(version); f != nil {
		return f
	}
	if in.session, f = s.session(r); f != nil {
		if s.cfg.Eras == Both && modernBatch(in.body) { // to its client the session means nothing
			return &refuseBatch
		}
		return f
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
	return s.sortBatch(r, in)
}

// sortBatch finds out what is in a batch.
func (s *Server) sortBatch(r *http.Request, in *incoming) (f *refusal) {
	requests, answers := 0, 0
	for i := range in.batch {
		switch m := &in.batch[i]; {
		case isModern(m) && s.cfg.Eras == Both:
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
		in.kind = toTell
		return nil
	case answers > 0:
		return badRequest("requests and responses must not be in one batch")
	}
	in.kind, in.id = toAsk, firstRequest(in.batch).ID
	in.mode, f = acceptedMode(r)
	return f
}

// modernBatch reports whether a message of a batch, as far as batches are read, belongs to the modern era, which has no batches.
func modernBatch(body []byte) bool {
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

// firstRequest is the one of a batch that stands for all where there is room for one.
func firstRequest(ms []jsonrpc.Message) *jsonrpc.Message {
	for i := range ms {
		if ms[i].Kind == jsonrpc.Request {
			return &ms[i]
		}
	}
	return nil
}
