package rejoin

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
)

// Server serves MCP sessions. Make it with NewServer and mount it with one or more adapters. Safe for concurrent use.
//
// Server has no ServeHTTP method, because routers reuse the objects in a request's context and a tool may outlive its request: an adapter
// replaces those objects by copies before it calls Serve.
type Server struct {
	app       App
	modernApp http.Handler // nil: modern requests are refused
	cfg       Config
	guard     door.Guard
	engine    *engine.Engine
	log       *slog.Logger
	stats     counters
	warned    [warningKinds]atomic.Bool

	loggedMu      sync.Mutex
	loggedClients map[[2]string]struct{} // names and versions that logMissedPoll has logged

	lastSession    atomic.Uint64
	modernRunning  atomic.Int64    // requests of the modern era that run, without subscriptions/listen
	modernCtx      context.Context // their contexts end with it; Close ends it
	cancelModern   context.CancelFunc
	listensRunning atomic.Int64    // requests of subscriptions/listen that run
	listenCtx      context.Context // their contexts end with it; Drain and Close end it
	cancelListens  context.CancelFunc
	tasks          *engine.Tasks // nil: no task is made
	node           *node         // nil: outside a cluster
	discovered     discovered    // what the app says of itself in the modern era

	mu         sync.RWMutex
	sessions   map[string]*Session
	refs       map[SessionRef]*Session
	evictable  evictable                     // of all sessions that were opened
	principals map[string]*principalSessions // nil: Config.Principal is nil
	started    time.Time                     // evictionEntry.since counts from here
}

// NewServer returns a server for app. It checks cfg and returns all mistakes as one error.
func NewServer(app App, cfg Config) (*Server, error) {
	modern := modernHandler(app)
	if err := cfg.resolve(app, modern); err != nil {
		return nil, err
	}
	srv := &Server{
		app: app, modernApp: modern, cfg: cfg, log: cfg.Logger, guard: door.NewGuard(cfg.AllowedHosts, cfg.AllowedOrigins),
		sessions: map[string]*Session{}, refs: map[SessionRef]*Session{}, evictable: newEvictable(ofServer), started: time.Now(),
		loggedClients: map[[2]string]struct{}{},
	}
	if cfg.Principal != nil {
		srv.principals = map[string]*principalSessions{}
	}
	srv.engine = engine.New(engine.Config{
		Machine: core.Config{
			Policy: cfg.Policy.core(), SessionIdleTTL: cfg.SessionIdleTTL, MaxInFlight: cfg.MaxConcurrent, MaxEnded: maxEnded, Remember: maxRemembered,
			IDBytes: maxKeptIDBytes, NoStandalone: cfg.NoStandalone,
		},
		Store: cfg.Store, StoreTimeout: cfg.StoreTimeout, KeepAlive: cfg.KeepAlive, Node: cfg.Node, Cluster: cfg.Cluster.engine(),
	})
	if modern != nil && cfg.Eras != EraLegacy && !cfg.Tasks.Off {
		srv.tasks = srv.engine.NewTasks(cfg.Tasks.Max, cfg.Tasks.MaxPerPrincipal)
	}
	if own, ok := app.(*handlerApp); ok {
		srv.discovered.known.Store(&selfDescription{serverInfo: own.info.server()})
	}
	srv.discovered.asking = make(chan struct{}, 1)
	srv.modernCtx, srv.cancelModern = context.WithCancel(context.Background())
	srv.listenCtx, srv.cancelListens = context.WithCancel(srv.modernCtx)
	if cfg.Cluster != nil {
		var err error
		if srv.node, err = newNode(srv, *cfg.Cluster); err != nil {
			return nil, err
		}
		srv.node.start()
	}
	return srv, nil
}

// Serve answers one HTTP request. It is for adapters: nothing in r.Context() may be reused after Serve returns, because a tool may still read
// it.
func (srv *Server) Serve(w http.ResponseWriter, r *http.Request) {
	// This is the only place that answers refusals. Many connections wait in c.Serve and p.serve, so little is kept on the stack below them.
	o := srv.dispatch(w, r)
	if o.passing != nil {
		o.passing.serve()
		return
	}
	if c := o.conn; c != nil {
		how := engine.Lost // if user code panics; net/http ends the connection
		defer func() { c.End(how) }()
		var why core.Reason
		if how, why = c.Serve(r.Context()); how == engine.Refused {
			o.id = c.Request()
			o.status, o.refusal = connectionRefusal(w, why)
		}
	}
	switch {
	case o.refusal != nil && o.refusal.hold && r.Method == http.MethodGet: // its session has moved just now
		srv.holdStream(w, r, r.Header.Get(cursorHeader))
	case o.refusal != nil:
		srv.refuse(w, o.refusal, o.id)
	case o.status != 0:
		srv.answerEmpty(w, o.status)
	}
}

// outcome is what is left to do for a request. In its zero value the response was written.
type outcome struct {
	conn    *engine.Conn // to be served
	passing *passing     // to be served
	refusal *refusal     // to be answered
	id      []byte       // of the request, for the refusal
	status  int          // of an empty response
}

// dispatch reads a request and does what it asks for, except what may wait.
func (srv *Server) dispatch(w http.ResponseWriter, r *http.Request) outcome {
	var in incoming
	if f := srv.read(w, r, &in); f != nil {
		return outcome{refusal: f, id: in.id}
	}
	if in.place != nil {
		return srv.forward(w, r, &in)
	}
	return srv.perform(w, r, &in)
}

// perform does what a request asks for that was read, except what may wait.
func (srv *Server) perform(w http.ResponseWriter, r *http.Request, in *incoming) outcome {
	o := outcome{id: in.id}
	switch s := in.session; in.kind {
	case kindInitialize:
		if o.conn, o.refusal = srv.openSession(w, r, in); o.refusal == &refuseDraining && srv.node != nil && srv.engine.Draining() { // just now
			return srv.dispatch(w, reread(r, in))
		}
	case kindRequest:
		o.conn = s.startPost(w, r, in, 0, in.mode)
	case kindNotification:
		if srv.node != nil && s.engine.Moved() { // just now
			return srv.dispatch(w, reread(r, in))
		}
		s.receiveAll(r, in.messages(), in.body)
		o.status = http.StatusAccepted
	case kindGet:
		o.conn = s.attachGet(w, r, in)
	case kindDelete:
		if s.end(core.Deleted); srv.node != nil && s.engine.Moved() { // just now, so it has not ended
			return srv.dispatch(w, reread(r, in))
		}
		o.status = http.StatusNoContent
	case kindHeld:
		srv.holdStream(w, r, in.cursor)
	case kindProbe:
		o.status = http.StatusNoContent
	case kindModern:
		o.refusal = srv.serveModern(w, r, in)
		if o.refusal == &refuseUnknownTask && srv.node != nil { // it has moved just now; else another look will say that it is unknown
			return srv.dispatch(w, reread(r, in))
		}
	}
	if o.refusal == &refuseDraining && srv.node != nil && srv.engine.Draining() { // the drain began in between, and nothing was done
		switch {
		case in.forwarded:
			o.refusal = &refuseMisdirected
		case srv.node.handOn(r, in):
			return srv.forward(w, r, in)
		}
	}
	if o.conn == nil || srv.node == nil || in.kind == kindInitialize {
		return o
	}
	if stopping := o.conn.Stopping(); stopping || o.conn.Moved() { // just now: nothing has begun
		o.conn.End(engine.Refused)
		if stopping && !srv.node.awaitEnd(r, in.session) {
			return outcome{refusal: &refuseAway, id: in.id}
		}
		return srv.dispatch(w, reread(r, in))
	}
	return o
}

// awaitEnd waits until a session has ended that Close ends: then it goes on in another process. No request waits for longer than a lease.
func (n *node) awaitEnd(r *http.Request, s *Session) bool {
	timer := time.NewTimer(n.Lease)
	defer timer.Stop()
	select {
	case <-s.Done():
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}

// tooManyUnreturned reports whether so many handlers run although their requests have ended that no session and no request of the modern era
// may begin. Nothing else limits these.
func (srv *Server) tooManyUnreturned() bool {
	return srv.cfg.MaxSessions > 0 && srv.engine.Stale().Load() >= int64(srv.cfg.MaxSessions)
}

// findSession returns the session with that id if it belongs to the principal of r, else nil.
func (srv *Server) findSession(id string, r *http.Request) *Session {
	srv.mu.RLock()
	s := srv.sessions[id]
	srv.mu.RUnlock()
	if s == nil || s.Principal() != srv.principal(r) {
		return nil
	}
	return s
}

func (srv *Server) principal(r *http.Request) string {
	if srv.cfg.Principal == nil {
		return ""
	}
	return srv.cfg.Principal(r)
}

// all returns the sessions that exist now.
func (srv *Server) all() []*Session {
	srv.mu.RLock()
	defer srv.mu.RUnlock()
	list := make([]*Session, 0, len(srv.sessions))
	for _, s := range srv.sessions {
		list = append(list, s)
	}
	return list
}

// Sessions yields a snapshot of each session that was opened and has not ended, in no order.
func (srv *Server) Sessions() iter.Seq[SessionInfo] {
	return func(yield func(SessionInfo) bool) {
		for _, s := range srv.all() {
			if info, ok := s.info(); ok && !yield(info) {
				return
			}
		}
	}
}

// byRef returns the session that ref names, or nil.
func (srv *Server) byRef(ref SessionRef) *Session {
	srv.mu.RLock()
	defer srv.mu.RUnlock()
	return srv.refs[ref]
}

// CloseStream disconnects the client of one stream, as Handle.CloseStream does. It returns ErrUnknown if there is no such stream.
func (srv *Server) CloseStream(stream StreamRef, retryAfter time.Duration) error {
	session, number, ok := stream.parts()
	if !ok {
		return ErrUnknown
	}
	s := srv.byRef(session)
	if s == nil {
		return ErrUnknown
	}
	id, ok := s.engine.Find(number)
	if !ok {
		return ErrUnknown
	}
	return s.closeStream(id, retryAfter)
}

// CloseStreams disconnects the client from all streams of a session that it reads. It returns the number of these streams, and ErrNotResumable
// if there were others from which it could not be disconnected. ErrUnknown: there is no such session.
func (srv *Server) CloseStreams(session SessionRef, retryAfter time.Duration) (int, error) {
	s := srv.byRef(session)
	if s == nil {
		return 0, ErrUnknown
	}
	closed, failed := 0, error(nil)
	for _, id := range s.engine.Attached() {
		switch err := s.closeStream(id, retryAfter); {
		case err == nil:
			closed++
		case errors.Is(err, ErrNotResumable):
			failed = err
		}
	}
	return closed, failed
}

// EndSession ends a session. For each request that it waits for, the client gets an error with the data.reason ReasonEnded. It returns
// ErrUnknown if there is no such session.
func (srv *Server) EndSession(session SessionRef) error {
	s := srv.byRef(session)
	if s == nil {
		return ErrUnknown
	}
	s.end(core.Terminated)
	return nil
}

// nextRef returns the name of a new session. It contains Config.Node, and nothing from which the session id could be guessed.
func (srv *Server) nextRef() SessionRef {
	var room [64]byte // on the stack
	return SessionRef(strconv.AppendUint(append(append(room[:0], srv.cfg.Node...), '-'), srv.lastSession.Add(1), 10))
}

// isSessionID reports whether a session id has the form of those that servers make.
func isSessionID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return len(id) == 26
}

// randomName returns a name for this process.
func randomName() string { return strings.ToLower(rand.Text()[:8]) }
