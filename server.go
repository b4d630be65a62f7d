package rejoin

import (
	"container/list"
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
	silent   *list.List // sessions whose client has not come back after initialize, oldest first
	places   map[*Session]*list.Element
}

// NewServer checks and copies cfg. All contradictions come back as one error.
func NewServer(app App, cfg Config) (*Server, error) {
	if err := cfg.resolve(app); err != nil {
		return nil, err
	}
	s := &Server{
		app: app, cfg: cfg, log: cfg.Logger, guard: newGuard(cfg.AllowedHosts, cfg.AllowedOrigins),
		sessions: map[string]*Session{}, silent: list.New(), places: map[*Session]*list.Element{},
		changed: make(chan struct{}, 1), doubted: map[[2]string]struct{}{},
	}
	s.machines = core.Config{
		Policy: cfg.Policy.core(), SessionIdleTTL: cfg.SessionIdleTTL, MaxInFlight: cfg.MaxConcurrent, MaxEnded: maxEnded, Remember: maxRemembered,
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
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) {
	if why := s.guard.check(r); why != "" {
		s.refuse(w, refusal{status: http.StatusForbidden, code: CodeInvalidRequest, message: why})
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.servePost(w, r)
	case http.MethodGet:
		s.serveGet(w, r)
	case http.MethodDelete:
		s.serveDelete(w, r)
	default:
		if s.cfg.Eras == Modern {
			s.refuse(w, refuseModernMethod)
			return
		}
		s.refuse(w, refuseMethod)
	}
}

// silentAfter is how old a session must be whose client has not come back after initialize, to make room for a new one.
const silentAfter = 30 * time.Second

// admit registers a new session. Where there are too many, one makes room whose client has never come back after initialize, and in which
// nothing happens.
func (s *Server) admit(n *Session) bool {
	for busy := 0; ; {
		s.mu.Lock()
		if s.cfg.MaxSessions <= 0 || len(s.sessions) < s.cfg.MaxSessions {
			s.sessions[n.id] = n
			s.mu.Unlock()
			return true
		}
		oldest := s.unheard(busy)
		s.mu.Unlock()
		switch {
		case oldest == nil:
			return false
		case !oldest.makeRoom(): // others may take the room that it makes: then the next one does
			busy++
		}
	}
}

// unheard returns the oldest session whose client has been silent for long, or nil. It passes over the first ones. Under the lock.
func (s *Server) unheard(but int) *Session {
	for at := s.silent.Front(); at != nil; at = at.Next() {
		n := at.Value.(*Session) //nolint:forcetypeassert // the list holds nothing else
		switch {
		case time.Since(n.created) < silentAfter:
			return nil
		case but == 0:
			return n
		}
		but--
	}
	return nil
}

// wait lists a session that waits for its client to come back after initialize.
func (s *Server) wait(n *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[n.id] == n && !n.spoke.Load() {
		s.places[n] = s.silent.PushBack(n)
	}
}

// spoken takes a session out of those: its client has come back.
func (s *Server) spoken(n *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.places[n]; at != nil {
		s.silent.Remove(at)
		delete(s.places, n)
	}
}

// forget takes an ended session out.
func (s *Server) forget(n *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(n)
}

func (s *Server) remove(n *Session) {
	if s.sessions[n.id] == n {
		delete(s.sessions, n.id)
	}
	if at := s.places[n]; at != nil {
		s.silent.Remove(at)
		delete(s.places, n)
	}
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
	for _, n := range s.all() {
		if n.ref == ref || strings.HasPrefix(string(ref), string(n.ref)+"-") {
			return n
		}
	}
	return nil
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
