package rejoin

import (
	"container/heap"
	"crypto/rand"
	"errors"
	"net/http"
	"time"
	"unique"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// openSession opens a session for an initialize. If anything goes wrong before the answer is written, no session remains.
func (srv *Server) openSession(w http.ResponseWriter, r *http.Request, in *incoming) (*engine.Conn, *refusal) {
	s, f := srv.newSession(r, &in.one[0])
	if f != nil {
		return nil, f
	}
	opened := false
	defer func() {
		if !opened { // code of the user has panicked; net/http ends the connection
			s.end(core.OpenFailure)
		}
	}()
	c := s.startPost(w, r, in, core.Initialize, ModeJSON)
	opened = true
	return c, nil
}

// newSession makes a session to which initialize was not delivered yet. The session is complete before App.Open gets it, because the app may
// use it at once.
func (srv *Server) newSession(r *http.Request, m *jsonrpc.Message) (*Session, *refusal) {
	s := &Session{srv: srv, ref: srv.nextRef()}
	who := engine.Identity{ID: rand.Text(), Principal: srv.principal(r), Created: time.Now()}
	if srv.node != nil {
		s.record = member.NewRecord(srv.node.recordConfig(s, srv.node.key(who.ID), 1))
		who.Owner = s.owner()
	}
	s.engine.Init(srv.engine, (*host)(s), who)
	var description clientDescription
	if info, ok := jsonrpc.Field(m.Params, "clientInfo"); ok {
		description.client = trimClientInfo(info) // a copy, because the body may be large
	}
	if capabilities, ok := jsonrpc.Field(m.Params, "capabilities"); ok {
		description.capabilities = trimCapabilities(capabilities)
	}
	s.description = unique.Make(description)
	if !srv.admit(s) {
		return nil, &refuseFull
	}
	app, err := srv.openApp(r, s, nil)
	switch {
	case err != nil:
		s.end(core.OpenFailure)
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, &refusal{status: http.StatusBadRequest, code: e.Code, message: e.Message, data: validData(e.Data)}
		}
		srv.log.Error("rejoin: the app could not open a session", "error", err)
		return nil, &refusal{status: http.StatusInternalServerError, code: CodeInternal, message: "the server could not open a session"}
	case !s.setApp(app): // the app or Close has ended the session already
		return nil, &refuseDraining
	case srv.engine.Draining(): // the drain began in between
		s.end(core.Shutdown)
		return nil, &refuseDraining
	}
	return s, nil
}

// validData returns the data of an app's error. Data that is not valid JSON becomes a JSON string.
func validData(data []byte) string {
	if len(data) > 0 && !jsonrpc.Valid(data) {
		data = jsonrpc.AppendString(nil, string(data))
	}
	return string(data)
}

// openApp calls App.Open and turns a panic into an error.
func (srv *Server) openApp(r *http.Request, s *Session, state []byte) (app AppSession, err error) {
	defer srv.recovered("App.Open", func() { err = errors.New("panic") })
	app, err = srv.app.Open(r, s, state)
	if err == nil && app == nil {
		err = errors.New("App.Open returned nil")
	}
	return app, err
}

const (
	// unusedAfter is how old an unused session must be before it is evicted. Unused: its client has sent nothing since initialize.
	unusedAfter = 30 * time.Second
	// idleAfter is how long another session must be idle before it is evicted.
	idleAfter = 5 * time.Minute
)

// admit registers a new session, and evicts an idle one if there is no room. It reports whether there is room.
//
// With Config.Principal, a principal may hold as many sessions as there are places left. So there is a place for every principal that has no
// session, as long as one is free or idle.
//
// The oldest unused session is evicted first, else the one that has been idle for longest. If the principal of the new session has sessions,
// one of those is evicted, else any. So a principal with many sessions gives up its own. Clients that only ever initialize take at most half
// of the places from others.
func (srv *Server) admit(s *Session) bool {
	for evicted := false; ; {
		srv.mu.Lock()
		p := srv.principals[s.Principal()]
		free := srv.cfg.MaxSessions - len(srv.sessions)
		if srv.cfg.MaxSessions <= 0 || free > 0 && (evicted || p == nil || p.count < free) {
			srv.add(s, p)
			srv.mu.Unlock()
			return true
		}
		var candidate *Session
		if p != nil {
			candidate = p.evictable.first(time.Since(srv.started))
		} else if candidate = srv.evictable.first(time.Since(srv.started)); candidate != nil && candidate.used &&
			2*srv.evictable.unused.Len() > srv.cfg.MaxSessions {
			candidate = nil
		}
		srv.mu.Unlock()
		if candidate == nil {
			return false
		}
		var since time.Time
		if since, evicted = candidate.engine.EndIdle(idleAfter); !evicted {
			srv.requeue(candidate, since)
		} // else another request may take the room: then the next round evicts again
	}
}

// add registers a session, and counts it for its principal. p is nil if the principal has no session, or if there are no principals. Under
// the lock.
func (srv *Server) add(s *Session, p *principalSessions) {
	srv.sessions[s.ID()], srv.refs[s.ref] = s, s
	s.registered = true
	if srv.principals == nil {
		return
	}
	if p == nil {
		p = &principalSessions{evictable: newEvictable(ofPrincipal)}
		srv.principals[s.Principal()] = p
	}
	p.count++
}

// remove removes an ended session.
func (srv *Server) remove(s *Session) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if !s.registered {
		return
	}
	s.registered = false
	delete(srv.sessions, s.ID())
	delete(srv.refs, s.ref)
	srv.dequeue(s)
	if p := srv.principals[s.Principal()]; p != nil {
		if p.count--; p.count == 0 {
			delete(srv.principals, s.Principal())
		}
	}
}

// enqueue makes a session that was opened evictable.
func (srv *Server) enqueue(s *Session) { srv.requeue(s, s.engine.Created()) }

// requeue moves a session to its place in the queues. It may have been idle since the given time, not longer.
func (srv *Server) requeue(s *Session, since time.Time) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if !s.registered {
		return
	}
	srv.dequeue(s)
	s.used, s.eviction.since = s.engine.HasHeard(), since.Sub(srv.started)
	heap.Push(srv.evictable.of(s), s)
	if p := srv.principals[s.Principal()]; p != nil {
		heap.Push(p.evictable.of(s), s)
	}
}

// dequeue removes a session from the queues. Under the lock.
func (srv *Server) dequeue(s *Session) {
	srv.evictable.of(s).remove(s)
	if p := srv.principals[s.Principal()]; p != nil {
		p.evictable.of(s).remove(s)
	}
}

// markUsed notes that the client has sent something after initialize.
func (s *Session) markUsed() {
	if s.engine.Heard() {
		s.srv.requeue(s, time.Now())
	}
}

// principalSessions are the sessions of one principal, which has at least one. Guarded by the server's mutex.
type principalSessions struct {
	count     int
	evictable evictable
}

// evictionEntry is a session's place in the queues of evictable sessions.
type evictionEntry struct {
	since time.Duration // since Server.started: the session was not idle before
	index [2]int32      // in the queues of the server and of the principal, counted from 1; 0: in no queue
}

const (
	ofServer    = 0
	ofPrincipal = 1
)

// evictable holds sessions in the order in which they are evicted. The order is only as good as what was known when a session was queued:
// using a session does not move it, so that it costs nothing. When a session in front turns out to have been used meanwhile, it is queued
// again, at most once every idleAfter. So the first session that need not be queued again has been idle for longest.
type evictable struct {
	unused idleQueue // their clients have sent nothing since initialize
	used   idleQueue
}

func newEvictable(owner int) evictable {
	return evictable{idleQueue{owner: owner}, idleQueue{owner: owner}}
}

func (e *evictable) of(s *Session) *idleQueue {
	if s.used {
		return &e.used
	}
	return &e.unused
}

// first returns the session to evict first, or nil. now counts from Server.started.
func (e *evictable) first(now time.Duration) *Session {
	switch {
	case e.unused.Len() > 0 && now-e.unused.all[0].eviction.since >= unusedAfter:
		return e.unused.all[0]
	case e.used.Len() > 0 && now-e.used.all[0].eviction.since >= idleAfter:
		return e.used.all[0]
	}
	return nil
}

// idleQueue is a heap for container/heap. The session that has been idle for longest, as far as is known, is the first.
type idleQueue struct {
	all   []*Session
	owner int // which index of an evictionEntry belongs to it
}

func (q *idleQueue) Len() int           { return len(q.all) }
func (q *idleQueue) Less(i, j int) bool { return q.all[i].eviction.since < q.all[j].eviction.since }
func (q *idleQueue) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.all[i].eviction.index[q.owner], q.all[j].eviction.index[q.owner] = int32(i+1), int32(j+1) //nolint:gosec // there are fewer sessions
}

func (q *idleQueue) Push(x any) {
	s := x.(*Session) //nolint:forcetypeassert // the queue holds only sessions
	q.all = append(q.all, s)
	s.eviction.index[q.owner] = int32(len(q.all)) //nolint:gosec // there are fewer sessions
}

func (q *idleQueue) Pop() any {
	last := len(q.all) - 1
	s := q.all[last]
	q.all[last], q.all = nil, q.all[:last]
	s.eviction.index[q.owner] = 0
	return s
}

func (q *idleQueue) remove(s *Session) {
	if at := s.eviction.index[q.owner]; at > 0 {
		heap.Remove(q, int(at-1))
	}
}
