package rejoin

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/hop"
)

// sought is what is sought: a session or a task.
type sought struct {
	isID func(string) bool
	// here looks for it in this process. by: the user it belongs to. The session is nil if it is a task.
	here    func(srv *Server, id string) (s *Session, by string, ok bool)
	unknown *refusal
}

var (
	theSession = sought{isSessionID, (*Server).liveSession, &refuseUnknownSession}
	theTask    = sought{isTaskID, (*Server).keptTask, &refuseUnknownTask}
)

// liveSession looks for a session that has not moved.
func (srv *Server) liveSession(id string) (s *Session, by string, ok bool) {
	if s = srv.sessionHere(id); s == nil || s.engine.Moved() {
		return nil, "", false
	}
	return s, s.Principal(), true
}

// keptTask looks for a task.
func (srv *Server) keptTask(id string) (s *Session, by string, ok bool) {
	by, ok = srv.tasks.PrincipalOf(id)
	return nil, by, ok
}

// isTaskID reports whether a task id has the form of those that servers make.
func isTaskID(id string) bool {
	node, random, ok := strings.Cut(id, ".")
	return ok && len(node) <= maxNodeBytes && isSessionID(random)
}

// maxNodeBytes is as long as Config.Node may be, with what is added to it in a cluster, and more.
const maxNodeBytes = 64

// search is the search for a session or a task in the directory, and its adoption if its owner is dead. All requests for the session wait for it.
type search struct {
	done      chan struct{}
	session   *Session   // it was adopted
	here      bool       // it was adopted, or found here meanwhile
	place     *hop.Place // another process owns it
	released  bool       // that is one of those that may take it over
	refusal   *refusal   // why there is neither
	by        string     // the user whose request has begun it
	principal string     // the hash in the record; "": none was found
	again     bool       // it was begun by another user's request, which adopts nothing
}

// maxUnknown limits the searches per second that find nothing. Session ids cannot be guessed, but ids can be made up.
// What was found costs nothing, so that many sessions may come to a process at once. maxSearches limits the searches that run.
const (
	maxUnknown  = 1000
	maxSearches = 2000
)

// locate finds a session or a task that this process does not have: it is adopted if its owner is dead (in.session), or else in.place is where it is. A
// request that was forwarded to this process is not forwarded again.
func (n *node) locate(r *http.Request, in *incoming, id string, what *sought) *refusal {
	key := n.key(id)
	for {
		if f, done := n.recall(r, in, id, key, what); done {
			return f
		}
		principal := n.srv.principal(r) // before the search begins, because it is code of the user
		found, mine := n.beginSearch(key)
		switch {
		case found == nil:
			n.srv.stats.unsearched.Add(1)
			return &refuseUnsearched
		case mine: // in a goroutine of its own: App.Open may take longer than this request waits, and others wait too
			found.by = principal
			like := r.Clone(context.WithoutCancel(r.Context()))
			like.Body = http.NoBody
			go n.search(like, id, key, found, what)
		}
		switch {
		case !n.await(r, in, found):
			return &refuseAway
		case !mine && found.principal != "" && !isHashOf(found.principal, id, principal):
			return what.unknown
		case !mine && (found.again || found.here): // then it is here
		default:
			return n.goTo(r, in, key, found)
		}
	}
}

// recall answers, if it can, what locate asks, by what this process knows without the directory.
func (n *node) recall(r *http.Request, in *incoming, id, key string, what *sought) (f *refusal, done bool) {
	s, by, here := what.here(n.srv, id) // adopted just now
	switch {
	case here && by == n.srv.principal(r):
		in.session = s
		return nil, true
	case here && n.member.Holds(), !what.isID(id): // of another user. Without the directory it is as an id that does not exist
		return what.unknown, true
	case n.hasEnded(key) && !n.Stopped() && n.member.Holds(): // else it goes on in another process, or may do so
		return what.unknown, true
	case in.forwarded && n.srv.engine.Draining(): // it takes no session over, so the process that has sent the request looks for another one
		return &refuseMisdirected, true
	}
	if at := n.places.Find(key); at != nil && !in.forwarded {
		if at.Principal != "" && !n.isPrincipalOf(at, r, id) {
			return what.unknown, true
		}
		if !n.member.Suspects(at.Owner) {
			in.place, in.key = at, key
			return nil, true
		}
		n.places.Drop(key, at)
	}
	switch {
	case n.member.Serves(r.Context()):
		return nil, false
	case !n.handOn(r, in): // the directory does not answer, or this process has left the cluster
		n.srv.stats.away.Add(1)
		return &refuseAway, true
	}
	if owner := n.ownerOf(r, id, key); owner != nil {
		in.place = owner
	}
	in.key = key
	return nil, true
}

// goTo fills in with what a search has found.
func (n *node) goTo(r *http.Request, in *incoming, key string, found *search) *refusal {
	switch {
	case found.here:
		in.session = found.session
		return nil
	case found.place == nil:
		return found.refusal
	case in.forwarded:
		return &refuseMisdirected
	}
	in.place, in.key = found.place, key
	if found.released && slices.Contains(in.declined, found.place.Owner.Incarnation) {
		if in.place = n.heir(r.Context(), in.declined, found.place.Principal, found.place.CanPoll); in.place == nil {
			return &refuseAway
		}
	}
	return nil
}

// beginSearch returns the search for a session that runs, or begins one, which is the caller's then. Nil: too many have found nothing.
func (n *node) beginSearch(key string) (found *search, mine bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found = n.searches[key]; found != nil {
		return found, false
	}
	if len(n.searches) >= maxSearches || !n.unknown.Left() {
		return nil, false
	}
	found = &search{done: make(chan struct{}), refusal: &refuseAway}
	n.searches[key] = found
	return found, true
}

// await waits for a search. No request waits for longer than a lease.
func (n *node) await(r *http.Request, in *incoming, found *search) bool {
	if in.waits.IsZero() {
		in.waits = time.Now()
	}
	timer := time.NewTimer(n.Lease - time.Since(in.waits))
	defer timer.Stop()
	select {
	case <-found.done:
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}

// search searches for a session or a task, and fills found. r has no body, and nothing else uses it.
func (n *node) search(r *http.Request, id, key string, found *search, what *sought) {
	defer func() { // also if code of the user ends this goroutine
		n.mu.Lock()
		delete(n.searches, key)
		n.mu.Unlock()
		close(found.done)
	}()
	for range maxOvertaken {
		if !n.searchOnce(r, id, key, found, what) {
			return
		}
	}
}

// maxOvertaken is how often a search begins again because what it has found has changed before it could adopt the session.
const maxOvertaken = 5

// searchOnce is search, unless it returns true: then it is to be called again.
func (n *node) searchOnce(r *http.Request, id, key string, found *search, what *sought) (again bool) {
	n.searching.Add(1) // before Draining is looked at: a drain waits for adoptions, which are given back then
	defer func() {
		n.searching.Add(-1)
		n.srv.tellDrain()
	}()
	// An earlier search may have adopted it after the request that has begun this one had looked.
	if s, by, here := what.here(n.srv, id); here && by == found.by {
		found.session, found.here = s, true
		return false
	}
	ctx, cancel := n.deadline(r.Context())
	defer cancel()
	record, err := n.member.Find(ctx, key)
	if errors.Is(err, cluster.ErrUnknown) || errors.Is(err, cluster.ErrEnded) {
		found.refusal = what.unknown
		n.unknown.Use()
		return false
	}
	if err != nil {
		n.srv.stats.away.Add(1)
		return false
	}
	about, known := n.read(record)
	found.principal = about.Principal
	if known && !isHashOf(about.Principal, id, found.by) {
		found.refusal, found.again = what.unknown, true
		n.unknown.Use()
		return false
	}
	// A record of this process that it does not have the session of: an adoption that the engine has forgotten, or one that failed half-way.
	mine := record.Fence.Incarnation == n.process.Incarnation
	owner := ownerIn(record)
	switch {
	case mine && n.hasEnded(key): // meanwhile
		found.refusal = what.unknown
	case !mine && !record.Released && !n.member.Gone(ctx, owner):
		found.place = &hop.Place{Owner: owner, Principal: about.Principal, CanPoll: about.Polls}
		n.places.Put(key, found.place)
	case n.srv.engine.Draining(): // this process takes no session over any more, but another one may
		if found.place = n.heir(ctx, nil, about.Principal, about.Polls); found.place == nil {
			n.srv.stats.away.Add(1)
		}
		found.released = found.place != nil
	case !known: // another process may adopt it
	case !n.member.Holds():
		n.srv.stats.away.Add(1)
	case about.Task != nil:
		_, found.refusal = n.takeTask(r, id, found.by, record, about)
		found.here = found.refusal == nil
	case !n.beginAdoption():
		found.refusal = &refuseFull
	default:
		defer n.adopting.Add(-1)
		found.session, found.refusal = n.take(r, id, found.by, record, about)
		found.here = found.refusal == nil
	}
	if again = found.refusal == &refuseOvertaken; again {
		found.refusal = &refuseAway
	}
	return again
}

// heir returns a place at another process, which may take a session over, or nil if there is none: one of those that have not declined, as a process
// does that drains too, as long as there are any. This process drains.
func (n *node) heir(ctx context.Context, declined []string, principal string, canPoll bool) *hop.Place {
	others := n.member.Others()
	if len(others) == 0 {
		select {
		case <-n.looked:
			others = n.member.Others()
		case <-ctx.Done():
		}
	}
	if len(others) == 0 {
		return nil
	}
	willing := slices.DeleteFunc(slices.Clone(others), func(m cluster.Member) bool { return slices.Contains(declined, m.Incarnation) })
	if len(willing) > 0 {
		others = willing
	}
	return &hop.Place{Owner: others[rand.IntN(len(others))], Principal: principal, CanPoll: canPoll} //nolint:gosec // any will do
}

// handOn makes a process that drains forward a request that it cannot or must not serve to another process. It does not know where that is served,
// nor whether it may be; the other one does.
func (n *node) handOn(r *http.Request, in *incoming) bool {
	if in.forwarded || !n.srv.engine.Draining() {
		return false
	}
	version, _ := door.Single(r.Header[versionHeader])
	v, _ := core.Find(version)
	in.place = n.heir(r.Context(), in.declined, "", v.Polls)
	return in.place != nil
}

// ownerOf returns the place of a session at its owner, for a process that may not serve: another process than the owner would not serve the request. Nil:
// it is not known, or not this user's, or the owner may be dead. Then any other process can tell.
func (n *node) ownerOf(r *http.Request, id, key string) *hop.Place {
	ctx, cancel := n.deadline(r.Context())
	defer cancel()
	record, err := n.member.Find(ctx, key)
	if err != nil || record.Released || record.Fence.Incarnation == n.process.Incarnation {
		return nil
	}
	owner := ownerIn(record)
	about, known := n.read(record)
	if n.member.Suspects(owner) || known && !isHashOf(about.Principal, id, n.srv.principal(r)) {
		return nil
	}
	return &hop.Place{Owner: owner, Principal: about.Principal, CanPoll: about.Polls}
}

// ownerIn is the owner that a record names.
func ownerIn(record *cluster.Record) cluster.Member {
	return cluster.Member{Process: cluster.Process{Incarnation: record.Fence.Incarnation, Self: record.Self}, Generation: record.Generation}
}

// read reads the description of a session. known: this process can read it. Else it can still forward requests to the owner.
func (n *node) read(record *cluster.Record) (about *aboutSession, known bool) {
	about = new(aboutSession)
	if record.Format != recordFormat {
		n.srv.warnOnce(warnFormat, "rejoin: the record of a session was written by another version of rejoin, so this process does not adopt it",
			"format", record.Format)
		return about, false
	}
	if err := json.Unmarshal(record.About, about); err != nil {
		n.srv.log.Error("rejoin: the record of a session cannot be read", "error", err)
		return new(aboutSession), false
	}
	return about, true
}

// isHashOf reports whether a record has the hash of a user.
func isHashOf(hash, id, principal string) bool {
	return hmac.Equal([]byte(hash), []byte(principalHash(id, principal)))
}

// isPrincipalOf reports whether the user who sent a request is that of the session that is at a place. Most requests are by the user who sent the last one.
func (n *node) isPrincipalOf(at *hop.Place, r *http.Request, id string) bool {
	principal := n.srv.principal(r)
	if at.Knows(principal) {
		return true
	}
	if !isHashOf(at.Principal, id, principal) {
		return false
	}
	at.Learn(principal)
	return true
}

// sessionHere returns the session with that id, of whichever user, or nil.
func (srv *Server) sessionHere(id string) *Session {
	srv.mu.RLock()
	defer srv.mu.RUnlock()
	return srv.sessions[id]
}
