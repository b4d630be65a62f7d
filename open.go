package rejoin

import (
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// newSession makes a session that is still to be opened: initialize comes next. It is complete before the app sees it, which may
// use it at once.
func (s *Server) newSession(r *http.Request, m jsonrpc.Message) (*Session, refusal) {
	n := &Session{srv: s, id: rand.Text(), ref: s.nextRef(), principal: s.principal(r), created: time.Now()}
	if client, ok := jsonrpc.Field(m.Params, "clientInfo"); ok {
		n.client = keptClient(client) // and nothing of the body, which may be large
	}
	if offers, ok := jsonrpc.Field(m.Params, "capabilities"); ok {
		n.offers = keptCapabilities(offers)
	}
	var standalone core.StreamID
	_, _ = rand.Read(standalone[:]) // it never fails
	n.m = core.New(&s.machines, standalone, n.created)
	n.streams = []*stream{{id: standalone}}
	if !s.admit(n) {
		return nil, refuseFull
	}
	app, err := s.open(r, n)
	switch {
	case err != nil:
		n.end(core.OpenFailure)
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, refusal{status: http.StatusBadRequest, code: e.Code, message: e.Message, data: string(e.Data)}
		}
		s.log.Error("rejoin: the app could not open a session", "error", err)
		return nil, refusal{status: http.StatusInternalServerError, code: CodeInternal, message: "the server could not open a session"}
	case !n.setApp(app): // it, or a shutdown, has ended the session already
		return nil, refuseDraining
	case s.draining.Load(): // it came in between
		n.end(core.Shutdown)
		return nil, refuseDraining
	}
	return n, refusal{}
}

// open calls the app, which must not harm others when it panics.
func (s *Server) open(r *http.Request, n *Session) (app AppSession, err error) {
	defer s.recovered("App.Open", func() { err = errors.New("panic") })
	app, err = s.app.Open(r, n, nil)
	if err == nil && app == nil {
		err = errors.New("App.Open returned nil")
	}
	return app, err
}

// setApp completes a session. If it has ended meanwhile, the app is told now.
func (n *Session) setApp(app AppSession) bool {
	n.mu.Lock()
	n.app = app
	over, cause := n.over, n.cause
	n.mu.Unlock()
	if over {
		n.tellEnded(app, cause)
	}
	return !over
}
