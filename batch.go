package rejoin

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// postBatch serves an array of messages, which only 2025-03-26 knows (JSON-RPC 2.0, section 6).
func (s *Server) postBatch(w http.ResponseWriter, r *http.Request, ms []jsonrpc.Message) *conn {
	n, f := s.session(r)
	if n == nil {
		s.refuse(w, f)
		return nil
	}
	requests, answers := 0, 0
	for i := range ms {
		switch {
		case isModern(&ms[i]):
			s.refuse(w, refuseModern)
			return nil
		case len(ms[i].ID) > maxIDBytes:
			s.refuse(w, refuseLongID)
			return nil
		case ms[i].Kind == jsonrpc.Notification:
		case ms[i].Kind != jsonrpc.Request:
			answers++
		case string(ms[i].Method) == "initialize":
			s.refuse(w, badRequest("initialize must not be part of a batch"))
			return nil
		default:
			requests++
		}
	}
	v, _ := core.Find(n.Version())
	switch {
	case !v.Batches:
		s.refuse(w, refuseBatch)
	case requests == 0:
		for i := range ms {
			n.tell(r, &ms[i])
		}
		s.empty(w, http.StatusAccepted)
	case answers > 0:
		s.refuse(w, badRequest("requests and responses must not be in one batch"))
	default:
		return s.postRequests(w, r, n, ms, true)
	}
	return nil
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
