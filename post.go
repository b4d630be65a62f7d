package rejoin

import (
	"errors"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/hop"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

const (
	sessionHeader = respond.SessionHeader
	versionHeader = "Mcp-Protocol-Version"
	cursorHeader  = "Last-Event-Id"
)

// incoming is an HTTP request that was read and checked. It has had no effect yet.
type incoming struct {
	kind    kind
	id      []byte   // of the request, for a refusal; nil: null
	session *Session // nil: initialize, or a request of the modern era
	mode    Mode     // what the client of a request accepts; ModeAuto: anything
	one     [1]jsonrpc.Message
	batch   []jsonrpc.Message // instead of one
	body    []byte            // of a POST, as it came
	get     engine.Get        // of a GET
	cursor  string            // its Last-Event-ID

	place     *hop.Place // the session is in another process; session is nil then
	key       string     // of that session
	stays     bool       // a subscriptions/listen that the process with its tasks does not take: it is served without them
	declined  []string   // incarnations of processes that have not taken it
	forwarded bool       // another process has forwarded the request
	note      hop.Note   // what that says
	waits     time.Time  // since when it waits for the session to be found, or for its owner; zero: it does not
}

// kind is what an HTTP request asks for.
type kind uint8

const (
	kindInitialize   kind = iota // a POST with initialize: opens a session
	kindRequest                  // a POST with at least one request
	kindNotification             // a POST with notifications or answers only
	kindGet                      // the standalone stream, or a stream to resume
	kindDelete                   // ends the session
	kindHeld                     // a GET that cannot be served now
	kindProbe                    // another process asks whether this one answers
	kindModern                   // a request of the modern era
	kindForeign                  // a batch for another process, which was not parsed
)

// messages returns the messages of a POST, whether it is one or a batch.
func (in *incoming) messages() []jsonrpc.Message {
	if in.batch != nil {
		return in.batch
	}
	return in.one[:]
}

// read fills in, or returns why the request is refused. It checks first what is cheap to check: the headers.
func (srv *Server) read(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	if srv.node != nil && r.Header[hop.Header] != nil {
		if f := srv.node.receive(w, r, in); f != nil || in.kind == kindProbe {
			return f
		}
	}
	if why := srv.guard.Check(r); why != "" {
		return &refusal{status: http.StatusForbidden, code: CodeInvalidRequest, message: why}
	}
	switch r.Method {
	case http.MethodPost:
		return srv.readPost(w, r, in)
	case http.MethodGet:
		return srv.readGet(r, in)
	case http.MethodDelete:
		return srv.readDelete(r, in)
	}
	if srv.cfg.Eras == EraModern {
		return &refuseModernMethod
	}
	return &refuseMethod
}

// readPost reads the whole body before it refuses a request, because a refusal must carry the request's id. A single message is parsed at
// once, which needs no memory. A batch is parsed only when everything else is right.
func (srv *Server) readPost(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	body, tooLarge, err := door.ReadBody(w, r, srv.cfg.MaxBodyBytes)
	in.body = body
	batch := jsonrpc.IsBatch(body)
	var parse error
	if !batch {
		in.one[0], parse = jsonrpc.Parse(body, maxJSONDepth)
		in.id = in.one[0].ID
	}
	switch {
	case err != nil: // the client stopped sending, but may still read
		return &refuseUnread
	case tooLarge:
		return &refuseLargeBody
	case door.HeaderBytes(r.Header) > door.MaxHeaderBytes:
		return &refuseLongHeader
	case !door.IsJSON(r.Header.Get("Content-Type")):
		return &refuseType
	case parse != nil:
		return malformed(r, parse)
	case len(in.id) > maxIDBytes:
		return &refuseLongID
	case batch:
		return srv.readBatch(r, in)
	}
	return srv.readMessage(r, in)
}

// malformed refuses a body that is not a message.
func malformed(r *http.Request, parse error) *refusal {
	if door.Encoded(r.Header["Content-Encoding"]) { // checked only now: a middleware may decode the body and leave this header
		return &refuseEncoding
	}
	if syntax, ok := errors.AsType[*jsonrpc.Error](parse); ok {
		return &refusal{status: http.StatusBadRequest, code: syntax.Code, message: syntax.Reason}
	}
	return badRequest("%v", parse) // not reached: Parse returns no other errors
}

// readMessage checks a single message and sets in.kind.
func (srv *Server) readMessage(r *http.Request, in *incoming) (f *refusal) {
	m := &in.one[0]
	version, one := door.Single(r.Header[versionHeader])
	declared, modern := modernVersion(m)
	switch modern = modern || core.IsModern(version); {
	case !one:
		return &refuseTwoVersions
	case modern && (srv.cfg.Eras == EraLegacy || srv.refusesProbe(r, m)):
		return &refuseModern
	case modern:
		in.kind = kindModern
		if f = srv.checkModern(version, declared); f == nil && srv.node != nil {
			f = srv.node.placeModern(r, in)
		}
		return f
	}
	if f = srv.checkLegacy(version); f != nil {
		return f
	}
	if m.Kind == jsonrpc.Request && string(m.Method) == "initialize" {
		return srv.readInitialize(r, in)
	}
	if f = srv.sessionOf(r, in); f != nil {
		return f
	}
	if in.kind = kindNotification; m.Kind == jsonrpc.Request {
		in.kind = kindRequest
		in.mode, f = acceptedMode(r)
	}
	return f
}

// checkLegacy refuses a version header that names an unknown version, and every request if only the modern era is served. A known version that
// is not the session's is accepted and has no effect: the session uses the version that was negotiated in initialize.
func (srv *Server) checkLegacy(version string) *refusal {
	var f *refusal
	if srv.cfg.Eras == EraModern {
		f = badRequest("this server speaks only versions from " + core.FirstModern + " on (Config.Eras)")
	} else if _, ok := core.Find(version); version != "" && !ok {
		f = badRequest("%s: unknown version; this server speaks those in data.supported", versionHeader)
	}
	if f != nil {
		f.data = srv.supported()
	}
	return f
}

// readInitialize checks whether a session may be opened.
func (srv *Server) readInitialize(r *http.Request, in *incoming) *refusal {
	in.kind = kindInitialize
	json, _ := door.Accepted(r.Header["Accept"])
	id, one := door.Single(r.Header[sessionHeader])
	switch {
	case len(in.body) > maxInitializeBytes:
		return &refuseLargeInitialize
	case !json:
		return &refuseNoJSON
	case !one:
		return &refuseTwoSessions
	case srv.engine.Draining() && in.forwarded: // the process that has sent it looks for another one
		return &refuseMisdirected
	case srv.engine.Draining():
		if srv.node != nil && srv.node.handOn(r, in) {
			return nil
		}
		return &refuseDraining
	case srv.node != nil && !srv.node.member.Serves(r.Context()):
		return &refuseAway
	case srv.node != nil && !srv.node.checkSelf(r):
		return &refuseSelf
	case srv.tooManyUnreturned():
		return &refuseUnreturned
	case id != "" && srv.findSession(id, r) != nil: // the id of an ended session is accepted: clients keep sending it
		return badRequest("this session is initialized already; end it with DELETE, or leave %s out", sessionHeader)
	}
	return nil
}

// sessionOf finds the session that a request names: in.session, or in.place.
func (srv *Server) sessionOf(r *http.Request, in *incoming) *refusal {
	id, one := door.Single(r.Header[sessionHeader])
	switch {
	case !one:
		return &refuseTwoSessions
	case id == "":
		return &refuseNoSession
	}
	s := srv.findSession(id, r)
	switch {
	case srv.node != nil && (s == nil || s.engine.Moved()):
		return srv.node.locate(r, in, id, &theSession)
	case srv.node != nil && (!srv.node.member.Serves(r.Context()) || s.record.Owned() != nil): // another process may own it by now
		return &refuseAway
	case srv.node != nil && s.engine.Moved(): // while this request waited to ask
		return srv.node.locate(r, in, id, &theSession)
	case s == nil:
		return &refuseUnknownSession
	}
	in.session = s
	return nil
}

// receiveAll delivers notifications and answers, which are in body. After the first it stops when the session ends or the client disconnects.
func (s *Session) receiveAll(r *http.Request, ms []jsonrpc.Message, body []byte) {
	for i := range ms {
		if i > 0 && (r.Context().Err() != nil || s.engine.Over()) {
			return
		}
		s.receive(r, &ms[i], body)
	}
}

// receive delivers a notification or an answer. notifications/cancelled is for the engine; the app gets the others. body is as for
// newNotification.
func (s *Session) receive(r *http.Request, m *jsonrpc.Message, body []byte) {
	s.markUsed()
	if m.Kind != jsonrpc.Notification {
		s.receiveAnswer(m)
		s.engine.Touch()
		return
	}
	if string(m.Method) == "notifications/cancelled" {
		id, ok := jsonrpc.Field(m.Params, "requestId")
		if ok && jsonrpc.IsID(id) && len(id) <= maxEscapedIDBytes {
			s.engine.Cancel(string(jsonrpc.Key(id)))
		}
		return
	}
	s.engine.Touch()
	defer s.srv.recovered("AppSession.Notification", func() {})
	s.app.Notification(newNotification(s, r, m, body))
}

// startPost starts requests, and delivers the notifications that came with them. It returns the connection that answers. mode is what the
// client accepts; ModeAuto: anything.
func (s *Session) startPost(w http.ResponseWriter, r *http.Request, in *incoming, flags core.Flags, mode Mode) *engine.Conn {
	out := respond.New(w, s.srv.cfg.WriteTimeout)
	ms, batch := in.messages(), in.batch != nil
	first := firstRequest(ms)
	post := engine.Post{First: first.ID, Flags: flags, Policy: s.policyFor(r, first, mode), Way: s.way(r, in, &out)}
	if !out.CanFlush() && post.Policy.Mode != core.JSON {
		s.srv.logNoFlush(r)
	}
	var one [1]*Call
	calls := one[:0]
	for i := range ms {
		if ms[i].Kind == jsonrpc.Request {
			c := newCall(s, r, ms[i])
			calls = append(calls, c)
			if batch {
				post.Batch = append(post.Batch, &c.engine)
			}
		}
	}
	post.Request = &calls[0].engine
	c, started := s.engine.Post(out, &post)
	returned := false
	defer func() {
		if !returned { // code of the user has called runtime.Goexit
			c.End(engine.Lost)
		}
	}()
	if started {
		if flags&core.Initialize == 0 {
			s.markUsed()
		}
		s.startCalls(r, ms, calls)
	}
	returned = true
	return c
}

// startCalls starts the calls of a POST, and delivers the notifications that came with them. It stops when the session ends, because the other
// calls are cancelled by then. If the client disconnects, it still starts calls, but delivers no notifications.
func (s *Session) startCalls(r *http.Request, ms []jsonrpc.Message, calls []*Call) {
	for i := range ms {
		switch request := ms[i].Kind == jsonrpc.Request; {
		case i > 0 && s.engine.Over():
			return
		case request:
			s.startCall(calls[0])
			calls = calls[1:]
		case r.Context().Err() == nil:
			s.receive(r, &ms[i], nil)
		}
	}
}

// startCall passes a call to the app. If the app panics, the call fails.
func (s *Session) startCall(c *Call) {
	c.engine.Begin()
	defer s.srv.recovered("AppSession.Request", func() { _ = c.Fail(Errorf(CodeInternal, "internal error")) })
	s.app.Request(c)
}

// acceptedMode returns the form of answer that the client of a request accepts.
func acceptedMode(r *http.Request) (Mode, *refusal) {
	switch json, stream := door.Accepted(r.Header["Accept"]); {
	case !json && !stream:
		return ModeAuto, &refuseAccept
	case !stream:
		return ModeJSON, nil
	case !json:
		return ModeSSE, nil
	}
	return ModeAuto, nil
}
