package rejoin

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/hop"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// receive reads what another process says of a request that it has forwarded to this one. It marks the answer. The incarnation is told only to those
// who know it.
func (n *node) receive(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	note, ok := hop.ParseNote(r.Header[hop.Header])
	if !ok || note.To != n.process.Incarnation {
		w.Header()[hop.Mark] = otherMark
		return &refuseMisdirected
	}
	w.Header()[hop.Mark] = []string{note.To}
	if n.srv.engine.Draining() { // http.Server.Shutdown drops what arrives over a connection that was kept, and the sender could not know that
		w.Header()["Connection"] = closeConnection
	}
	if note.Probe {
		in.kind = kindProbe
		return nil
	}
	n.srv.stats.received.Add(1)
	in.forwarded, in.note = true, note
	return nil
}

// otherMark is the mark of an answer to a request that was meant for another process.
var otherMark = []string{hop.Other}

var closeConnection = []string{"close"}

// way returns what is between a response and its client.
func (s *Session) way(r *http.Request, in *incoming, out *respond.Writer) engine.Way {
	way := engine.Way{Left: s.srv.timeLeft(r, out)}
	if !in.forwarded {
		return way
	}
	s.forwarded.Add(1)
	way.NoFlush, way.Via = in.note.NoFlush, in.note.By
	if left := in.note.Left; left > 0 && (way.Left == 0 || left < way.Left) {
		way.Left = left
	}
	return way
}

// forwarding is the way of one request to the owner of its session.
type forwarding struct {
	srv   *Server
	r     *http.Request
	out   respond.Writer
	began time.Time
	tries int
}

// forward sends a request to the owner of its session, and passes on what that answers, except a stream. If the session turns out to be here, it does
// what the request asks for.
func (srv *Server) forward(w http.ResponseWriter, r *http.Request, in *incoming) outcome {
	defer srv.tellDrain()
	x := forwarding{srv: srv, r: r, out: respond.New(w, srv.cfg.WriteTimeout), began: in.waits}
	if x.began.IsZero() {
		x.began = time.Now()
	}
	x.out.Stay()
	q := hop.Request{Request: r, Sent: in.body, IsCall: isCall(in), NoFlush: !x.out.CanFlush(), Left: srv.timeLeft(r, &x.out)}
	if q.NoFlush && in.mode != ModeJSON && (in.kind == kindGet || in.kind == kindRequest) {
		srv.logNoFlush(r)
	}
	for {
		owner := in.place.Owner
		if time.Since(x.began) > srv.node.Lease/3 { // a client must not wait longer than a lease for an owner that hangs
			q.AskUntil = x.began.Add(srv.node.Lease)
		}
		a, err := srv.node.forwarder.Send(hop.Owner{Self: owner.Self, Incarnation: owner.Incarnation}, &q)
		switch {
		case err == nil && a.IsStream():
			srv.stats.forwarded.Add(1)
			return outcome{passing: x.passing(in, a)}
		case err == nil:
			srv.stats.forwarded.Add(1)
			return outcome{refusal: x.pass(in, a), id: in.id}
		case r.Context().Err() != nil: // the client is gone
			return outcome{}
		case !x.again(in, err):
			return outcome{refusal: x.fail(in, err), id: in.id}
		}
		next := &incoming{waits: x.began, declined: append(in.declined, owner.Incarnation), stays: in.kind == kindModern && string(in.one[0].Method) == methodListen}
		r = reread(r, in)
		switch f := srv.read(w, r, next); {
		case f != nil:
			return outcome{refusal: f, id: next.id}
		case next.place == nil:
			return srv.perform(w, r, next)
		}
		in = next
	}
}

// reread returns a request that was read, to be read again.
func reread(r *http.Request, in *incoming) *http.Request {
	r = r.WithContext(r.Context())
	r.Body = door.Replay(in.body)
	return r
}

// tellDrain tells a drain that something may have ended that it waits for.
func (srv *Server) tellDrain() {
	if srv.engine.Draining() {
		srv.engine.Notify()
	}
}

// again waits until it is time to look once more where the session is, and reports whether to do so: the request has provably not arrived, and its
// client has not waited for a lease. A client that asks for a stream is told to come back, and does not wait.
func (x *forwarding) again(in *incoming, err error) bool {
	n := x.srv.node
	replaced := errors.Is(err, hop.ErrReplaced)
	switch {
	case replaced, errors.Is(err, hop.ErrMisdirected):
	case errors.Is(err, hop.ErrUnreached):
	default:
		return false
	}
	n.places.Drop(in.key, in.place)
	if replaced { // the view of the members is out of date
		n.look(x.r.Context())
	}
	if x.tries++; x.tries == 1 {
		return true
	}
	wait := min(25*time.Millisecond<<min(x.tries-2, 5), n.Lease/4)
	return in.kind != kindGet && time.Since(x.began)+wait < n.Lease && respond.Sleep(x.r.Context(), wait)
}

// fail answers where the owner has not: it returns the refusal, or nil if the answer is written.
func (x *forwarding) fail(in *incoming, err error) *refusal {
	srv := x.srv
	switch foreign := (*hop.ForeignError)(nil); {
	case errors.As(err, &foreign):
		srv.stats.foreign.Add(1)
		if foreign.Passes() {
			maps.Copy(x.out.Header(), foreign.Header)
			_ = x.out.Whole(foreign.Status, foreign.Body) // it fails if the client has disconnected
			return nil
		}
		srv.warnOnce(warnForeign, "rejoin: a request that was forwarded to another process was answered by something in between",
			"process", in.place.Owner.Self, "status", foreign.Status)
		return &refuseForeign
	case errors.Is(err, hop.ErrUnreached), errors.Is(err, hop.ErrMisdirected), errors.Is(err, hop.ErrReplaced):
		srv.stats.unreachable.Add(1)
		srv.logUnreachable(in.place, err)
		return x.refuse(in, &refuseUnreachable, unreachable)
	case errors.Is(err, hop.ErrStopped):
		return x.refuse(in, &refuseDraining, failure(core.Shutdown))
	}
	return x.lost(in, err)
}

// isCall reports whether the answer to a request may take long.
func isCall(in *incoming) bool { return in.kind == kindRequest || in.kind == kindForeign }

// lost answers where the owner was lost after it had been sent the request, and nothing of its answer was passed on.
func (x *forwarding) lost(in *incoming, err error) *refusal {
	x.srv.stats.ownerLost.Add(1)
	x.srv.logOwnerLost(in.place, err)
	return x.refuse(in, &refuseOwnerLost, failure(core.OwnerLost))
}

// refuse answers a POST of requests of a session with errors of its requests: clients take these for no more than the end of the requests. Others are
// refused.
func (x *forwarding) refuse(in *incoming, f *refusal, e *Error) *refusal {
	ids, batch := requestsOf(in)
	switch {
	case len(ids) == 0, in.kind == kindInitialize, in.kind == kindModern:
		return f
	case in.mode == ModeSSE:
		x.out.Head()
		_ = x.out.Whole(http.StatusOK, errorEvents(ids, e)) // it fails if the client has disconnected
	default:
		_ = x.out.JSON(http.StatusOK, errorBody(ids, e, batch))
	}
	return nil
}

// pass passes an answer on that is not a stream.
func (x *forwarding) pass(in *incoming, a *hop.Answer) *refusal {
	defer a.Close()
	if in.kind == kindDelete || a.Status == http.StatusNotFound { // the session is over
		x.srv.node.places.Drop(in.key, in.place)
	}
	body, err := a.Whole()
	switch {
	case x.r.Context().Err() != nil: // the client is gone
		return nil
	case err != nil:
		return x.fail(in, err)
	}
	a.Head(x.out.Header())
	if len(body) == 0 {
		x.out.Empty(a.Status)
		return nil
	}
	x.srv.engine.NoteWriteError(x.out.Whole(a.Status, body))
	return nil
}

// passing is the stream of an owner. Most wait in serve, for as long as their session lives.
type passing struct {
	srv    *Server
	r      *http.Request
	answer *hop.Answer
	place  *hop.Place
	out    respond.Writer
	stream hop.Stream
	left   unanswered
	isGet  bool
	listen []byte // the id of a subscriptions/listen; nil: it is another request
	cursor string // of a GET
}

// passing makes it of an answer that is a stream.
func (x *forwarding) passing(in *incoming, a *hop.Answer) *passing {
	p := &passing{srv: x.srv, r: x.r, answer: a, place: in.place, out: x.out, isGet: in.kind == kindGet, cursor: in.cursor}
	p.left.ids, _ = requestsOf(in)
	for i, id := range p.left.ids {
		p.left.ids[i] = bytes.Clone(id) // it is part of the body
	}
	if in.kind == kindModern && string(in.one[0].Method) == methodListen {
		p.listen = p.left.ids[0]
	}
	// A subscription that has begun during the drain lasts as long as that: its client would come back here at once.
	p.stream = hop.Stream{Out: &p.out, CanPoll: in.place.CanPoll, MayGo: p.listen != nil && !x.srv.engine.Draining()}
	p.stream.MayEnd = p.listen != nil || p.isGet && (!in.get.Resumes || engine.IsStandalone(in.get.Stream))
	if len(p.left.ids) > 0 {
		p.stream.Seen = p.left.see
	}
	return p
}

// serve passes the stream on.
func (p *passing) serve() {
	defer p.srv.tellDrain()
	defer p.answer.Close()
	p.answer.Head(p.out.Header())
	end, err := p.answer.Pass(&p.stream)
	p.end(end, err)
}

// end ends the response. If the stream was cut off between two events, its client is told to come back, or is answered with errors if it cannot.
func (p *passing) end(end hop.End, err error) {
	why, stopped := core.OwnerLost, errors.Is(err, hop.ErrStopped)
	if stopped {
		why = core.Shutdown
	}
	switch {
	case end == hop.Complete:
		p.out.Limit() // the end of the response is written after this
		return
	case end == hop.Unwritable:
		p.srv.engine.NoteWriteError(err)
		return
	case p.r.Context().Err() != nil: // the client is gone
		return
	case end == hop.HeldBack:
		p.srv.warnOnce(warnNoFlush, heldBackMessage, "writer", p.out.Kind())
	case !errors.Is(err, hop.ErrLetGo) && !stopped:
		p.srv.stats.ownerLost.Add(1)
		p.srv.logOwnerLost(p.place, err)
	}
	switch {
	case end == hop.Broken: // a client might take half an event for a whole one
		p.out.Abort()
	case p.listen != nil && errors.Is(err, hop.ErrLetGo): // as it ends where it is served
		_ = p.out.SendLast(p.srv.listenEnd(p.listen))
	case p.stream.Primed && p.stream.CanPoll:
		_ = p.out.SendLast(sse.AppendRetry(nil, p.srv.heldRetry()))
	case p.isGet && p.stream.CanPoll:
		_ = p.out.SendLast(p.srv.held(p.r, p.cursor))
	case p.isGet:
		p.out.Limit()
	default:
		_ = p.out.SendLast(errorEvents(p.left.ids, failure(why)))
	}
}

// unanswered are requests whose responses a client has not got yet.
type unanswered struct {
	ids   [][]byte
	parts sse.Splitter
}

// see looks for responses in what was written.
func (u *unanswered) see(events []byte) {
	_ = u.parts.Write(events, func(data []byte) { // it has no limit
		m, err := jsonrpc.Parse(data, maxJSONDepth)
		if err != nil || m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure {
			return
		}
		u.ids = slices.DeleteFunc(u.ids, func(id []byte) bool { return bytes.Equal(jsonrpc.Key(id), jsonrpc.Key(m.ID)) })
	})
}

// requestsOf returns the ids of the requests of a POST, and whether it is a batch. A batch for another process was not parsed before.
func requestsOf(in *incoming) (ids [][]byte, batch bool) {
	switch {
	case in.kind == kindGet, in.kind == kindDelete:
		return nil, false
	case !jsonrpc.IsBatch(in.body):
		if m := &in.one[0]; m.Kind == jsonrpc.Request {
			ids = [][]byte{m.ID}
		}
		return ids, false
	}
	for m, err := range jsonrpc.Batch(in.body, maxJSONDepth) {
		if err != nil || len(ids) == maxBatch {
			break
		}
		if m.Kind == jsonrpc.Request && len(m.ID) <= maxIDBytes {
			ids = append(ids, m.ID)
		}
	}
	return ids, true
}

// errorBody is the plain JSON answer to requests that all have failed.
func errorBody(ids [][]byte, e *Error, batch bool) []byte {
	if !batch {
		return jsonrpc.AppendError(nil, ids[0], e.Code, e.Message, e.Data)
	}
	body := []byte{'['}
	for _, id := range ids {
		body = append(jsonrpc.AppendError(body, id, e.Code, e.Message, e.Data), ',')
	}
	body[len(body)-1] = ']'
	return body
}

// errorEvents is errorBody in a stream.
func errorEvents(ids [][]byte, e *Error) (body []byte) {
	for _, id := range ids {
		body = sse.AppendEvent(body, nil, jsonrpc.AppendError(nil, id, e.Code, e.Message, e.Data))
	}
	return body
}

// holdStream answers a GET that cannot be served now: with a stream that has a primer at the client's own position, tells it when to come back, and
// ends. At an error the official Go client would give its standalone stream up for good, and others their session.
func (srv *Server) holdStream(w http.ResponseWriter, r *http.Request, cursor string) {
	srv.stats.held.Add(1)
	out := respond.New(w, srv.cfg.WriteTimeout)
	out.Head()
	_ = out.Whole(http.StatusOK, srv.held(r, cursor)) // it fails if the client has disconnected
}

// held is the body of such a stream.
func (srv *Server) held(r *http.Request, cursor string) []byte {
	version, _ := door.Single(r.Header[versionHeader])
	if v, _ := core.Find(version); !v.Polls {
		return sse.AppendComment(nil)
	}
	retry := srv.heldRetry()
	return sse.AppendRetry(sse.AppendPrimer(nil, engine.HeldID(cursor), retry), retry)
}

func (srv *Server) heldRetry() time.Duration {
	retry := srv.cfg.Policy.core().Retry
	return retry + rand.N(retry/5+1) //nolint:gosec // clients that are sent away together must not come back together
}

// isGone reports whether the members of the cluster know an owner to be dead. The generation is not known here, so it finds only those whose count
// stands still.
func (n *node) isGone(o hop.Owner) bool {
	return n.member.Suspects(cluster.Member{Process: cluster.Process{Incarnation: o.Incarnation, Self: o.Self}, Generation: math.MaxUint64})
}

// selfCheck is what a process knows of its own Cluster.Self.
type selfCheck struct {
	mu    sync.Mutex
	next  time.Time // it is not asked before
	wrong bool      // another process answers there
}

// checkSelf asks the process at Cluster.Self whether it is this one, through the router that like has come through, until it was so once. It returns
// false if it is another one: then the others could not reach the sessions of this process. It does not wait for the answer.
func (n *node) checkSelf(like *http.Request) bool {
	n.self.mu.Lock()
	defer n.self.mu.Unlock()
	if now := time.Now(); n.self.next.IsZero() || now.After(n.self.next) {
		n.self.next = now.Add(n.Lease)
		q := like.Clone(context.WithoutCancel(like.Context()))
		q.Body = http.NoBody
		go n.askSelf(q)
	}
	return !n.self.wrong
}

// never is a time that does not come.
var never = time.Unix(1<<40, 0)

func (n *node) askSelf(like *http.Request) {
	ctx, cancel := context.WithTimeout(like.Context(), n.Lease/2)
	defer cancel()
	err := n.forwarder.ProbeSelf(ctx, n.process.Incarnation, like)
	n.self.mu.Lock()
	defer n.self.mu.Unlock()
	n.self.wrong = errors.Is(err, hop.ErrReplaced)
	switch {
	case err == nil:
		n.self.next = never
	case n.self.wrong:
		n.srv.log.Error("rejoin: Cluster.Self of this process is the address of another one, so it opens no sessions: is it that of a load balancer?",
			"cluster", n.Name, "self", n.Self)
	default:
		n.srv.warnOnce(warnSelfUnknown, "rejoin: this process could not reach itself at Cluster.Self, so perhaps others cannot reach it either",
			"cluster", n.Name, "self", n.Self, "error", err)
	}
}
