package rejoin

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Server serves MCP sessions to any number of adapters.
//
// It is not an http.Handler, on purpose: mount it with an adapter, which replaces the values that its router
// recycles before a tool can keep them. Safe for concurrent use.
type Server struct {
	app   App
	cfg   Config
	guard guard
	// machines is what those of all sessions have in common.
	machines core.Config
	log      *slog.Logger
	// instant: the store never waits (eventstore.Instant), so its operations need no deadline.
	instant bool
	stats   counters
	said    [saidKinds]atomic.Bool

	doubtedMu sync.Mutex
	doubted   map[[2]string]struct{} // names and versions of clients that did not come back and were logged

	lastAsk     atomic.Uint64
	lastSession atomic.Uint64
	stale       *atomic.Int64 // calls and modern requests that have ended, and that the app still works on
	draining    atomic.Bool
	modern      atomic.Int64    // requests of the modern era that run
	life        context.Context // of those; it ends with Close
	kill        context.CancelFunc
	listens     atomic.Int64    // those that have no end of their own
	listening   context.Context // of these; it ends with Drain
	hush        context.CancelFunc
	changed     chan struct{} // something happened while draining

	mu       sync.RWMutex
	sessions map[string]*Session
	refs     map[Ref]*Session
	places   places             // of all sessions
	holders  map[string]*holder // by principal; nil: there are none
	began    time.Time
}

// NewServer checks and copies cfg. All contradictions come back as one error.
func NewServer(app App, cfg Config) (*Server, error) {
	if err := cfg.resolve(app); err != nil {
		return nil, err
	}
	s := &Server{
		app: app, cfg: cfg, log: cfg.Logger, guard: newGuard(cfg.AllowedHosts, cfg.AllowedOrigins),
		sessions: map[string]*Session{}, refs: map[Ref]*Session{}, places: newPlaces(ofServer), began: time.Now(),
		stale: new(atomic.Int64), changed: make(chan struct{}, 1), doubted: map[[2]string]struct{}{},
	}
	if cfg.Principal != nil {
		s.holders = map[string]*holder{}
	}
	s.machines = core.Config{
		Policy: cfg.Policy.core(), SessionIdleTTL: cfg.SessionIdleTTL, MaxInFlight: cfg.MaxConcurrent, MaxEnded: maxEnded, Remember: maxRemembered, IDBytes: maxKeptIDBytes,
		NoStandalone: cfg.NoStandalone,
	}
	s.life, s.kill = context.WithCancel(context.Background())
	s.listening, s.hush = context.WithCancel(s.life)
	if i, ok := cfg.Store.(eventstore.Instant); ok {
		s.instant = i.Instant()
	}
	return s, nil
}

// Serve answers one HTTP request; for adapters. Nothing in r.Context() may be reused after Serve returns.
//
// While a connection waits there is little on its stack. All refusals leave from here.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) {
	c, id, status, f := s.take(w, r)
	if c != nil {
		how := lost // if user code panics; net/http ends the connection
		defer func() { c.end(how) }()
		var why core.Reason
		if how, why = c.run(r.Context()); how == refused {
			id = c.first
			status, f = c.refusal(why)
		}
	}
	switch {
	case f != nil:
		s.refuse(w, f, id)
	case status != 0:
		s.empty(w, status)
	}
}

// take reads a request and does what it wants, but for waiting: c waits. Without it the answer is f, for the request id, or an empty one with
// status; neither: it was given.
func (s *Server) take(w http.ResponseWriter, r *http.Request) (c *conn, id []byte, status int, f *refusal) {
	var in incoming
	if f = s.read(w, r, &in); f != nil {
		return nil, in.id, 0, f
	}
	switch n := in.session; in.kind {
	case toOpen:
		c, f = s.openSession(w, r, &in)
	case toAsk:
		c = n.openPost(w, r, in.messages(), in.batch != nil, 0, in.mode)
	case toTell:
		n.tellAll(r, in.messages())
		status = http.StatusAccepted
	case toListen:
		c = n.openGet(w, r, &in.get)
	case toEnd:
		n.end(core.Deleted)
		status = http.StatusNoContent
	case toModern:
		f = s.serveModern(w, r, &in.one[0], in.body)
	}
	return c, in.id, status, f
}

// overworked reports whether so much is worked on of which nobody waits for the answer that nothing may begin which has no other bound: a
// session, or a request of the modern era.
func (s *Server) overworked() bool {
	return s.cfg.MaxSessions > 0 && s.stale.Load() >= int64(s.cfg.MaxSessions)
}

// find returns the session of a request, if it is its principal's.
func (s *Server) find(id string, r *http.Request) *Session {
	s.mu.RLock()
	n := s.sessions[id]
	s.mu.RUnlock()
	if n == nil || n.principal != s.principal(r) {
		return nil
	}
	return n
}

func (s *Server) principal(r *http.Request) string {
	if s.cfg.Principal == nil {
		return ""
	}
	return s.cfg.Principal(r)
}

// all returns the sessions that there are now.
func (s *Server) all() []*Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*Session, 0, len(s.sessions))
	for _, n := range s.sessions {
		list = append(list, n)
	}
	return list
}

// Sessions yields a snapshot of each live session, in no order.
func (s *Server) Sessions() iter.Seq[SessionInfo] {
	return func(yield func(SessionInfo) bool) {
		for _, n := range s.all() {
			if info, ok := n.info(); ok && !yield(info) {
				return
			}
		}
	}
}

// byRef returns the session that ref names, or whose stream it names.
func (s *Server) byRef(ref Ref) *Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.refs[ref]; n != nil {
		return n
	}
	return s.refs[ref[:max(0, strings.LastIndexByte(string(ref), '-'))]]
}

// CloseStream lets the client of one stream go, as Handle.CloseStream does. ErrUnknown if there is no such stream.
func (s *Server) CloseStream(stream Ref, retryAfter time.Duration) error {
	n := s.byRef(stream)
	if n == nil {
		return ErrUnknown
	}
	id, ok := n.streamID(stream)
	if !ok {
		return ErrUnknown
	}
	return n.closeStream(id, retryAfter)
}

// CloseStreams lets go of all open streams of a session and reports how many it did. ErrNotResumable if there were others.
func (s *Server) CloseStreams(session Ref, retryAfter time.Duration) (int, error) {
	n := s.byRef(session)
	if n == nil || n.ref != session {
		return 0, ErrUnknown
	}
	closed, failed := 0, error(nil)
	for _, id := range n.open() {
		switch n.closeStream(id, retryAfter) {
		case nil:
			closed++
		case ErrNotResumable: //nolint:errorlint // our own, returned as it is
			failed = ErrNotResumable
		}
	}
	return closed, failed
}

// EndSession ends a session. Other than at a DELETE its client has not asked for it: it gets an error whose data.reason is "ended" for
// each request that it waits for.
func (s *Server) EndSession(session Ref) error {
	n := s.byRef(session)
	if n == nil || n.ref != session {
		return ErrUnknown
	}
	n.end(core.Terminated)
	return nil
}

// dropLog forgets a stream. A store that cannot is left alone: its own limits have to do.
func (s *Server) dropLog(log eventstore.Log) {
	ctx, cancel := s.deadline()
	defer cancel()
	defer s.recovered("eventstore.Log.Drop", func() { s.stats.storeFailed.Add(1) })
	if err := log.Drop(ctx); err != nil {
		s.stats.storeFailed.Add(1)
	}
}

func (s *Server) dropSession(id string) {
	ctx, cancel := s.deadline()
	defer cancel()
	defer s.recovered("eventstore.Store.DropSession", func() { s.stats.storeFailed.Add(1) })
	if err := s.cfg.Store.DropSession(ctx, id); err != nil {
		s.stats.storeFailed.Add(1)
	}
}

// nextRef names a session. It says in which process it was made, and nothing that opens it.
func (s *Server) nextRef() Ref {
	return Ref(s.cfg.Node + "-" + strconv.FormatUint(s.lastSession.Add(1), 10))
}

// randomName is a process's name.
func randomName() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
