package rejoin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unique"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// aboutSession is what a record has of a session, besides what the app saved: cluster.Record.About in recordFormat. It never changes. A process that
// finds members that it does not know ignores them.
type aboutSession struct {
	Ref          SessionRef      `json:"ref"`
	Version      string          `json:"version"`
	Polls        bool            `json:"polls,omitempty"`
	Principal    string          `json:"principal"` // its hash
	Client       json.RawMessage `json:"client,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Created      time.Time       `json:"created"`
	Task         *aboutTask      `json:"task,omitempty"` // nil: it is a session
}

// recordConfig is what is needed for the record of a session that this process is to own.
func (n *node) recordConfig(s *Session, key string, epoch uint64) member.RecordConfig {
	return member.RecordConfig{
		Directory: n.Directory, Owner: n.member.Me(), Key: key, Epoch: epoch, TTL: n.ttl, Timeout: n.srv.cfg.StoreTimeout,
		State: s.SavedState, Term: n.member.Term, Moved: func() { s.end(core.Moved) }, Host: n,
	}
}

// recordSession writes the record of a session whose initialize was answered. The client must not get the session id before that.
func (s *Session) recordSession(version string, polls bool) error {
	description := s.description.Value()
	about, err := json.Marshal(&aboutSession{
		Ref: s.ref, Version: version, Polls: polls, Principal: principalHash(s.ID(), s.Principal()), Client: json.RawMessage(description.client),
		Capabilities: json.RawMessage(description.capabilities), Created: s.engine.Created().Round(0),
	})
	if err != nil {
		return err
	}
	return s.record.Create(recordFormat, about)
}

// saveState returns when the directory has what the app has saved since Record.Changes returned that number, or with the error that the client gets in
// place of a result.
func (s *Session) saveState(since uint64) *Error {
	if err := s.record.Save(since); err != nil {
		s.srv.logDirectory(s, "the state of a session could not be saved, so a call has failed", err)
		return failure(core.StoreFailed)
	}
	return nil
}

// owner is what the engine needs to know of the session's record.
func (s *Session) owner() *engine.Owner {
	return &engine.Owner{Key: s.record.Key, Fence: s.record.Fence, Record: s.record}
}

// adoptionTime limits how long App.Open may take to open an adopted session.
const adoptionTime = 5 * time.Second

// maxFailedAdoptions is how often the app may fail to open an adopted session before the session is ended.
const maxFailedAdoptions = 3

// beginAdoption reports whether there is room for one more session. Adopted sessions may exceed MaxSessions by half: their clients cannot go
// anywhere else.
func (n *node) beginAdoption() bool {
	limit := n.srv.cfg.MaxSessions
	if n.adopting.Add(1); limit > 0 && n.srv.countSessions()+int(n.adopting.Load()) > limit+limit/2 {
		n.adopting.Add(-1)
		return false
	}
	return true
}

// noteEnded remembers a session that has ended in this process until the directory knows. Else the next request would find the record of a session
// that this process owns and has not got, and bring the session back. forGood: it does not go on in another process.
func (n *node) noteEnded(r *member.Record, forGood bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Unsettled() {
		n.ended[r.Key] = forGood
	}
}

// Settled implements member.RecordHost.
func (n *node) Settled(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ended, key)
	if n.srv.engine.Draining() {
		n.srv.engine.Notify()
	}
}

// Stopped implements member.RecordHost.
func (n *node) Stopped() bool { return n.stopped.Load() }

// Left implements member.RecordHost.
func (n *node) Left() bool { return n.left.Load() }

// Stands implements member.RecordHost.
func (n *node) Stands(ctx context.Context) (lost bool, err error) { return n.member.Stands(ctx) }

// hasEnded reports whether a session has ended here for good, and the directory does not know yet.
func (n *node) hasEnded(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[key]
}

// take takes the session of a user from its last owner and opens it here.
func (n *node) take(r *http.Request, id, principal string, record *cluster.Record, about *aboutSession) (*Session, *refusal) {
	record, streams, from, term, f := n.adopt(r, record, n.ttl)
	if f != nil {
		return nil, f
	}
	s := &Session{srv: n.srv, ref: about.Ref, description: unique.Make(clientDescription{string(about.Client), string(about.Capabilities)})}
	s.record = member.Adopted(n.recordConfig(s, record.Session, record.Fence.Epoch), term, from, record)
	if record.State != nil {
		state := func() []byte { return record.State }
		s.state.Store(&state)
	}
	adopted := engine.Adopted{
		Identity: engine.Identity{ID: id, Principal: principal, Created: about.Created, Owner: s.owner()}, Version: about.Version, Polls: about.Polls,
	}
	adopted.Streams = adoptedStreams(streams)
	s.engine.Adopt(n.srv.engine, (*host)(s), &adopted)
	app, err := n.openAdopted(r, s, record.State)
	if f := n.opened(s, app, err); f != nil {
		return nil, f
	}
	n.srv.addAdopted(s)
	if draining := n.srv.engine.Draining(); draining || !n.member.Holds() { // that began in between
		s.record.Release(nil, nil)
		s.end(core.Moved)
		if draining {
			return nil, &refuseOvertaken
		}
		return nil, &refuseAway
	}
	n.srv.stats.adopted.Add(1)
	return s, nil
}

// adopt makes this process the owner in the directory. It returns the record and the logs as they are then, the fence before, and the term in which it
// has asked.
func (n *node) adopt(r *http.Request, of *cluster.Record, ttl time.Duration) (record *cluster.Record, streams []cluster.Stream, from eventstore.Fence, term uint64, f *refusal) {
	ctx, cancel := n.deadline(r.Context())
	defer cancel()
	term, from = n.member.Term(), of.Fence
	err := member.Safely(func() (err error) {
		record, streams, err = n.Directory.Adopt(ctx, of.Session, of.Fence, n.member.Me(), ttl)
		return err
	})
	switch {
	case errors.Is(err, cluster.ErrEnded):
		f = &refuseUnknownSession
	case errors.Is(err, eventstore.ErrFenced): // another process was faster
		f = &refuseOvertaken
	case err != nil: // the engine is away
		f = &refuseAway
	}
	return record, streams, from, term, f
}

func adoptedStreams(streams []cluster.Stream) (out []engine.AdoptedStream) {
	for _, st := range streams {
		out = append(out, engine.AdoptedStream(st))
	}
	return out
}

// openAdopted calls App.Open, for at most adoptionTime. App.Open may be slower than that, so nothing may be done to r afterwards.
func (n *node) openAdopted(r *http.Request, s *Session, state []byte) (AppSession, error) {
	type result struct {
		app AppSession
		err error
	}
	ctx, cancel := context.WithTimeout(r.Context(), adoptionTime)
	defer cancel()
	r = r.WithContext(ctx)
	opened := make(chan result, 1)
	go func() {
		returned := result{err: errGoexit}
		defer func() { opened <- returned }()
		returned.app, returned.err = n.srv.openApp(r, s, state)
	}()
	timer := time.NewTimer(adoptionTime)
	defer timer.Stop()
	select {
	case o := <-opened:
		return o.app, o.err
	case <-timer.C:
	}
	go func() {
		if o := <-opened; o.err == nil {
			s.setApp(o.app) // tells it that the session has ended
		}
	}()
	return nil, context.DeadlineExceeded
}

var errGoexit = errors.New("App.Open has ended its goroutine")

// opened notes how the app has opened an adopted session. If it has not, another process may try.
func (n *node) opened(s *Session, app AppSession, err error) *refusal {
	if err == nil {
		s.setApp(app)
	}
	switch over := s.over(); {
	case errors.Is(over, ErrMoved): // a newer owner has the session
		return &refuseOvertaken
	case over != nil: // the app has ended it
		return &refuseUnknownSession
	}
	key := s.record.Key
	n.mu.Lock()
	failed := n.failures[key] + 1
	if err == nil || failed >= maxFailedAdoptions || len(n.failures) >= maxFailures {
		delete(n.failures, key)
	} else {
		n.failures[key] = failed
	}
	n.mu.Unlock()
	if err == nil {
		return nil
	}
	n.srv.log.Error("rejoin: the app could not open a session of a process that is lost", "session", s.ref, "error", err)
	if _, final := errors.AsType[*Error](err); final || failed >= maxFailedAdoptions {
		s.end(core.OpenFailure)
		return &refuseUnknownSession
	}
	s.record.Release(nil, nil) // else the next request finds that this process is the owner and has not got it
	s.end(core.Moved)
	return &refuseAway
}

// maxFailures limits the sessions whose failed adoptions are counted.
const maxFailures = 1000

// addAdopted registers an adopted session.
func (srv *Server) addAdopted(s *Session) {
	srv.mu.Lock()
	srv.add(s, srv.principals[s.Principal()])
	srv.mu.Unlock()
	srv.requeue(s, time.Now())
	if s.engine.Over() { // it has ended just now, and could not be removed before it was there
		srv.remove(s)
	}
}

// countSessions returns how many sessions there are.
func (srv *Server) countSessions() int {
	srv.mu.RLock()
	defer srv.mu.RUnlock()
	return len(srv.sessions)
}
