package rejoin

import (
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// host is a Session as the engine sees it: it implements engine.Host.
type host Session

var _ engine.Host = (*host)(nil)

// Cause returns what a call's context ends with.
func (h *host) Cause(why core.Reason) error { return causeOf(why) }

// Failure returns an error response.
func (h *host) Failure(id []byte, why core.Reason) []byte {
	f := failure(why)
	return jsonrpc.AppendError(nil, id, f.Code, f.Message, f.Data)
}

// Ended removes the session from its server and tells the app.
func (h *host) Ended(why core.Reason, cause error) {
	s := (*Session)(h)
	s.mu.Lock()
	app, ctx := s.app, s.ctx
	s.ended = cause
	s.mu.Unlock()
	if ctx != nil {
		ctx.cancel(cause)
	}
	if s.record != nil && why != core.Moved {
		s.srv.node.noteEnded(s.record)
	}
	s.srv.remove(s)
	if why == core.Moved {
		s.srv.logMoved(s)
	}
	if app != nil { // nil: App.Open has not returned, and setApp will tell the app
		s.callEnded(app, cause)
	}
}

// Report logs what an operator should know, and counts it.
func (h *host) Report(e engine.Event) {
	s := (*Session)(h)
	switch e.Kind {
	case engine.NotResumable:
		s.srv.logNotResumable(s)
	case engine.Full:
		s.srv.logFull(s)
	case engine.Unsent:
		s.srv.logUnsent(s, e.Err)
	case engine.StoreFailed:
		s.srv.logStoreFailed(s, e.Err)
	case engine.StoreLost:
		s.srv.logStoreLost(s, s.ref.stream(e.Stream), e.Last, e.Err)
	case engine.Gap:
		s.srv.logGap(s, e.First, e.Last)
	case engine.Doubted:
		s.srv.logMissedPoll(s)
	case engine.HeldBack:
		s.srv.logHeldBack(s, e.Where)
	case engine.Panicked:
		s.srv.logPanic(e.Where, e.Value, e.Stack)
	}
}
