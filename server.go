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
	// This is the only place that answers refusals. Many connections wait in c.Serve, so little is kept on the stack below it.
	c, id, status, f := srv.dispatch(w, r)
	if c != nil {
		how := engine.Lost // if user code panics; net/http ends the connection
		defer func() { c.End(how) }()
		var why core.Reason
		if how, why = c.Serve(r.Context()); how == engine.Refused {
			id = c.Request()
			status, f = connectionRefusal(w, why)
		}
	}
	switch {
	case f != nil && f.hold && r.Method == http.MethodGet: // its session has moved just now
		srv.holdStream(w, r, r.Header.Get(cursorHeader))
	case f != nil:
		srv.refuse(w, f, id)
	case status != 0:
		srv.answerEmpty(w, status)
	}
}

// dispatch reads a request and does what it asks for, except what may wait: for that the caller serves c. If c is nil, the answer is f with
// the request id, or an empty response with status if f is nil. A status of 0 means that the response was written.
func (srv *Server) dispatch(w http.ResponseWriter, r *http.Request) (c *engine.Conn, id []byte, status int, f *refusal) {
	var in incoming
	if f = srv.read(w, r, &in); f != nil {
		return nil, in.id, 0, f
	}
	switch s := in.session; in.kind {
	case kindInitialize:
		c, f = srv.openSession(w, r, &in)
	case kindRequest:
		c = s.startPost(w, r, in.messages(), in.batch != nil, 0, in.mode)
	case kindNotification:
		s.receiveAll(r, in.messages(), in.body)
		status = http.StatusAccepted
	case kindGet:
		c = s.attachGet(w, r, in.get)
	case kindDelete:
		s.end(core.Deleted)
		status = http.StatusNoContent
	case kindHeld:
		srv.holdStream(w, r, in.cursor)
	case kindModern:
		f = srv.serveModern(w, r, &in.one[0], in.body)
	}
	return c, in.id, status, f
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
