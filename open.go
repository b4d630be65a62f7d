package rejoin

import (
	"container/heap"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// openSession opens a session for its initialize. Whatever goes wrong before the answer is written leaves none.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request, in *incoming) (*conn, *refusal) {
	n, f := s.newSession(r, &in.one[0])
	if f != nil {
		return nil, f
	}
	opened := false
	defer func() {
		if !opened { // user code has panicked; net/http ends the connection
			n.end(core.OpenFailure)
		}
	}()
	c := n.openPost(w, r, in.one[:], false, core.Initialize, JSON)
	opened = true
	return c, nil
}

// newSession makes a session that is still to be opened: initialize comes next. It is complete before the app sees it, which may
// use it at once.
func (s *Server) newSession(r *http.Request, m *jsonrpc.Message) (*Session, *refusal) {
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
		return nil, &refuseFull
	}
	app, err := s.open(r, n)
	switch {
	case err != nil:
		n.end(core.OpenFailure)
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, &refusal{status: http.StatusBadRequest, code: e.Code, message: e.Message, data: validData(e.Data)}
		}
		s.log.Error("rejoin: the app could not open a session", "error", err)
		return nil, &refusal{status: http.StatusInternalServerError, code: CodeInternal, message: "the server could not open a session"}
	case !n.setApp(app): // it, or a shutdown, has ended the session already
		return nil, &refuseDraining
	case s.draining.Load(): // it came in between
		n.end(core.Shutdown)
		return nil, &refuseDraining
	}
	return n, nil
}

// validData is the data of an app's error, as a string where it is no JSON.
func validData(data []byte) string {
	if len(data) > 0 && !jsonrpc.Valid(data) {
		data = jsonrpc.AppendString(nil, string(data))
	}
	return string(data)
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

const (
	// silentAfter is how old a session must be whose client has not come back after initialize, to make room for a new one.
	silentAfter = 30 * time.Second
	// idleAfter is how long one must be idle whose client has.
	idleAfter = 5 * time.Minute
)

// admit registers a new session, if it finds room. Where there are Principals, each may hold as many sessions as there are places left for
// others, so that there is one for each who has none, as long as one is free or idle.
//
// Room is made by the oldest session whose client has never come back after initialize, else by the one that has been idle for longest: of
// the new one's principal, if that holds any, else of all. So who holds many gives up its own, and those who only ever initialize take at
// most half of the places from others.
func (s *Server) admit(n *Session) bool {
	for made := false; ; {
		s.mu.Lock()
		h := s.holders[n.principal]
		free := s.cfg.MaxSessions - len(s.sessions)
		if s.cfg.MaxSessions <= 0 || free > 0 && (made || h == nil || h.sessions < free) {
			s.add(n, h)
			s.mu.Unlock()
			return true
		}
		var idle *Session
		if h != nil {
			idle = h.places.longest(time.Since(s.began))
		} else if idle = s.places.longest(time.Since(s.began)); idle != nil && idle.place.heard && 2*s.places.silent.Len() > s.cfg.MaxSessions {
			idle = nil
		}
		s.mu.Unlock()
		if idle == nil {
			return false
		}
		var since time.Time
		if since, made = idle.makeRoom(); !made {
			s.relist(idle, since)
		} // else others may take the room that it makes: then the next one does
	}
}

// add registers a session with its principal's, if there are any. Under the lock.
func (s *Server) add(n *Session, h *holder) {
	s.sessions[n.id], s.refs[n.ref] = n, n
	if s.holders == nil {
		return
	}
	if h == nil {
		h = &holder{places: newPlaces(ofHolder)}
		s.holders[n.principal] = h
	}
	h.sessions++
	n.place.holder = h
}

// forget takes an ended session out.
func (s *Server) forget(n *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[n.id] != n {
		return
	}
	delete(s.sessions, n.id)
	delete(s.refs, n.ref)
	s.unlist(n)
	if h := n.place.holder; h != nil {
		if h.sessions--; h.sessions == 0 {
			delete(s.holders, n.principal)
		}
	}
}

// list puts an opened session among those that may make room.
func (s *Server) list(n *Session) { s.relist(n, n.created) }

// relist notes since when a session may have been idle.
func (s *Server) relist(n *Session, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[n.id] != n {
		return
	}
	s.unlist(n)
	n.place.heard, n.place.since = n.spoke.Load(), since.Sub(s.began)
	heap.Push(s.places.of(n), n)
	if h := n.place.holder; h != nil {
		heap.Push(h.places.of(n), n)
	}
}

// unlist takes it out. Under the lock.
func (s *Server) unlist(n *Session) {
	s.places.of(n).remove(n)
	if h := n.place.holder; h != nil {
		h.places.of(n).remove(n)
	}
}

// heard notes that the client has come back after initialize.
func (n *Session) heard() {
	if !n.spoke.Load() && n.spoke.CompareAndSwap(false, true) {
		n.srv.relist(n, time.Now())
	}
}

// makeRoom ends the session for a new one, if it has been idle for long enough, and reports whether it did, or it had ended. Else it tells
// since when it may have been idle. In one that is idle nothing runs, no connection is open, no result waits to be fetched, and the app waits
// for no answer.
func (n *Session) makeRoom() (since time.Time, made bool) {
	var p pass
	n.mu.Lock()
	if !n.over {
		since, idle := n.m.IdleSince()
		now, heard := time.Now(), n.spoke.Load()
		switch {
		case !idle || len(n.asks) > 0:
			n.mu.Unlock()
			return now, false
		case heard && now.Sub(since) < idleAfter:
			n.mu.Unlock()
			return since, false
		}
	}
	n.step(&core.In{Op: core.Delete, Reason: core.Idle}, &p)
	n.mu.Unlock()
	n.finish(&p)
	return time.Time{}, true
}

// holder is a principal that has sessions. Guarded by the server's mutex.
type holder struct {
	sessions int
	places   places
}

// place is where a session stands among those that may make room.
type place struct {
	holder *holder // nil: there are no principals
	heard  bool
	since  time.Duration // of the server's life: it has not been idle for longer than that
	at     [2]int32      // in the queues of the server and of the holder, from 1; 0: in none
}

const (
	ofServer = 0
	ofHolder = 1
)

// places are sessions in the order in which they make room. A session that was used stays where it is, and is put right when it is the
// first, which happens once in idleAfter at most. So the first that needs no putting right has been idle for longest.
type places struct {
	silent queue // their clients have not come back after initialize
	heard  queue
}

func newPlaces(whose int) places { return places{queue{whose: whose}, queue{whose: whose}} }

func (p *places) of(n *Session) *queue {
	if n.place.heard {
		return &p.heard
	}
	return &p.silent
}

// longest returns the session that should make room first, or nil.
func (p *places) longest(now time.Duration) *Session {
	switch {
	case p.silent.Len() > 0 && now-p.silent.all[0].place.since >= silentAfter:
		return p.silent.all[0]
	case p.heard.Len() > 0 && now-p.heard.all[0].place.since >= idleAfter:
		return p.heard.all[0]
	}
	return nil
}

// queue is a heap for container/heap: first is who has been idle for longest, as far as is known.
type queue struct {
	all   []*Session
	whose int
}

func (q *queue) Len() int           { return len(q.all) }
func (q *queue) Less(i, j int) bool { return q.all[i].place.since < q.all[j].place.since }
func (q *queue) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.all[i].place.at[q.whose], q.all[j].place.at[q.whose] = int32(i+1), int32(j+1) //nolint:gosec // there are not so many
}

func (q *queue) Push(x any) {
	n := x.(*Session) //nolint:forcetypeassert // the queue holds nothing else
	q.all = append(q.all, n)
	n.place.at[q.whose] = int32(len(q.all)) //nolint:gosec // there are not so many
}

func (q *queue) Pop() any {
	last := len(q.all) - 1
	n := q.all[last]
	q.all[last], q.all = nil, q.all[:last]
	n.place.at[q.whose] = 0
	return n
}

func (q *queue) remove(n *Session) {
	if at := n.place.at[q.whose]; at > 0 {
		heap.Remove(q, int(at-1))
	}
}
