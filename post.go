package rejoin

import (
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	cursorHeader  = "Last-Event-Id"
)

// incoming is a request that was read and may be served. Nothing of it has been done yet.
type incoming struct {
	kind    kind
	id      []byte   // what a refusal carries; nil: null
	session *Session // nil: it opens one, or belongs to the modern era
	mode    Mode     // what its client accepts, where there are requests; Auto: anything
	one     [1]jsonrpc.Message
	batch   []jsonrpc.Message // instead of one
	body    []byte            // of a POST, as it came
	get     core.In           // of a GET
}

// kind is what a request wants.
type kind uint8

const (
	toOpen   kind = iota // initialize
	toAsk                // at least one request of a session
	toTell               // notifications or answers, and no request
	toListen             // the standalone stream, or any stream that is resumed
	toEnd                // the end of its session
	toModern             // a request of the modern era
)

// messages are those of a POST, whether it is one or a batch.
func (in *incoming) messages() []jsonrpc.Message {
	if in.batch != nil {
		return in.batch
	}
	return in.one[:]
}

// read finds out what a request wants, or why it is refused. What costs more than its headers is looked at last.
func (s *Server) read(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	if why := s.guard.check(r); why != "" {
		return &refusal{status: http.StatusForbidden, code: CodeInvalidRequest, message: why}
	}
	switch r.Method {
	case http.MethodPost:
		return s.readPost(w, r, in)
	case http.MethodGet:
		return s.readGet(r, in)
	case http.MethodDelete:
		return s.readDelete(r, in)
	}
	if s.cfg.Eras == Modern {
		return &refuseModernMethod
	}
	return &refuseMethod
}

// readPost reads a body whole before it refuses: a refusal must carry the request's id. A single message is parsed for that, which takes no
// memory; a batch, not before everything else is known to be right.
func (s *Server) readPost(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	body, tooLarge, err := readBody(w, r, s.cfg.MaxBodyBytes)
	in.body = body
	batch := jsonrpc.IsBatch(body)
	var parse error
	if !batch {
		in.one[0], parse = jsonrpc.Parse(body, maxJSONDepth)
		in.id = in.one[0].ID
	}
	switch {
	case err != nil: // the client has stopped sending, and may read all the same
		return &refuseUnread
	case tooLarge:
		return &refuseLargeBody
	case headerBytes(r.Header) > maxHeaderBytes:
		return &refuseLongHeader
	case !isJSON(r.Header.Get("Content-Type")):
		return &refuseType
	case parse != nil:
		return malformed(r, parse)
	case len(in.id) > maxIDBytes:
		return &refuseLongID
	case batch:
		return s.readBatch(r, in)
	}
	return s.readMessage(r, in)
}

// malformed refuses what is no message.
func malformed(r *http.Request, parse error) *refusal {
	if encoded(r.Header["Content-Encoding"]) { // where a middleware has decoded it, the header may still be there
		return &refuseEncoding
	}
	if syntax, ok := errors.AsType[*jsonrpc.Error](parse); ok {
		return &refusal{status: http.StatusBadRequest, code: syntax.Code, message: syntax.Reason}
	}
	return badRequest("%v", parse) // Parse has no other errors
}

// readMessage finds out what a single message wants.
func (s *Server) readMessage(r *http.Request, in *incoming) (f *refusal) {
	m := &in.one[0]
	version, one := single(r.Header[versionHeader])
	declared, modern := modernMeta(m)
	switch modern = modern || core.IsModern(version); {
	case !one:
		return &refuseTwoVersions
	case modern && s.cfg.Eras == Legacy:
		return &refuseModern
	case modern:
		in.kind = toModern
		return s.checkModern(version, declared)
	}
	if f = s.checkLegacy(version); f != nil {
		return f
	}
	if m.Kind == jsonrpc.Request && string(m.Method) == "initialize" {
		return s.readInitialize(r, in)
	}
	if in.session, f = s.session(r); f != nil {
		return f
	}
	if in.kind = toTell; m.Kind == jsonrpc.Request {
		in.kind = toAsk
		in.mode, f = acceptedMode(r)
	}
	return f
}

// checkLegacy refuses a version header that names no known version, and what is not modern where only that is served. Another version than
// the session's is accepted, and means nothing: the session's rules were agreed on in initialize.
func (s *Server) checkLegacy(version string) *refusal {
	var f *refusal
	if s.cfg.Eras == Modern {
		f = badRequest("this server speaks only versions from " + core.FirstModern + " on (Config.Eras)")
	} else if _, ok := core.Find(version); version != "" && !ok {
		f = badRequest("%s: unknown version; this server speaks those in data.supported", versionHeader)
	}
	if f != nil {
		f.data = s.supported()
	}
	return f
}

// readInitialize finds out whether a session may be opened.
func (s *Server) readInitialize(r *http.Request, in *incoming) *refusal {
	in.kind = toOpen
	json, _ := accepted(r.Header["Accept"])
	id, one := single(r.Header[sessionHeader])
	switch {
	case len(in.body) > maxInitializeBytes:
		return &refuseLargeInitialize
	case !json:
		return &refuseNoJSON
	case !one:
		return &refuseTwoSessions
	case s.draining.Load():
		return &refuseDraining
	case s.overworked():
		return &refuseOverworked
	case id != "" && s.find(id, r) != nil: // a dead one is forgiven: clients keep sending it
		return badRequest("this session is initialized already; end it with DELETE, or leave %s out", sessionHeader)
	}
	return nil
}

// session finds the session that a request names.
func (s *Server) session(r *http.Request) (*Session, *refusal) {
	id, one := single(r.Header[sessionHeader])
	switch {
	case !one:
		return nil, &refuseTwoSessions
	case id == "":
		return nil, &refuseNoSession
	}
	n := s.find(id, r)
	if n == nil {
		return nil, &refuseUnknownSession
	}
	return n, nil
}

// tellAll delivers notifications and answers, as long as there is a session to deliver them to and a client that has not gone away.
func (n *Session) tellAll(r *http.Request, ms []jsonrpc.Message) {
	for i := range ms {
		if i > 0 && (r.Context().Err() != nil || n.isOver()) {
			return
		}
		n.tell(r, &ms[i])
	}
}

// isOver reports whether the session has ended.
func (n *Session) isOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// tell delivers a notification or an answer.
func (n *Session) tell(r *http.Request, m *jsonrpc.Message) {
	n.heard()
	if m.Kind != jsonrpc.Notification {
		n.answered(m)
		_ = n.do(core.In{Op: core.Touch})
		return
	}
	if string(m.Method) == "notifications/cancelled" {
		id, ok := jsonrpc.Field(m.Params, "requestId")
		if ok && jsonrpc.IsID(id) && len(id) <= maxSpellingBytes {
			_ = n.do(core.In{Op: core.Cancel, Key: string(jsonrpc.Key(id))})
		}
		return
	}
	_ = n.do(core.In{Op: core.Touch})
	defer n.srv.recovered("AppSession.Notification", func() {})
	n.app.Notification(newNotification(n, r, m))
}

// openPost starts requests, and delivers the notifications that came with them. mode is what the client accepts; Auto: anything.
func (n *Session) openPost(w http.ResponseWriter, r *http.Request, ms []jsonrpc.Message, batch bool, flags core.Flags, mode Mode) *conn {
	out := newWriter(w, n.srv.cfg.WriteTimeout)
	policy := n.policyFor(r, firstRequest(ms), mode)
	in := core.In{Op: core.Post, Flags: flags, Dur: n.srv.timeLeft(r, &out), Nonce: mrand.Uint64()} //nolint:gosec // the stream's name is the secret
	_, _ = rand.Read(in.Stream[:])                                                                  // it never fails
	if !out.canFlush() {
		in.Flags |= core.NoFlush
		if policy.Mode != core.JSON {
			n.srv.logNoFlush(r)
		}
	}
	st := &stream{id: in.Stream, batch: batch}
	st.calls = st.one[:0]
	for i := range ms {
		if ms[i].Kind != jsonrpc.Request {
			continue
		}
		c := newCall(n, r, in.Stream, ms[i])
		c.st, c.first = st, flags&core.Initialize != 0
		st.calls = append(st.calls, c)
		if batch {
			in.Batch = append(in.Batch, core.Request{ID: c.id, Key: keyOf(c.id, ms[i].ID), Ping: c.method == "ping"})
		}
	}
	st.method = st.calls[0].method
	if !batch {
		in.ID, in.Key = st.calls[0].id, keyOf(st.calls[0].id, firstRequest(ms).ID)
		st.request = in.ID
		if st.method == "ping" {
			in.Flags |= core.Ping
		}
	}
	p := pass{start: st}
	n.mu.Lock()
	in.Stale = n.stale.count()
	c := n.openConn(out)
	c.policy = policy
	in.Conn, in.Policy, c.stream, c.opens = c.id, &c.policy, in.Stream, flags&core.Initialize != 0
	c.first = firstRequest(ms).ID
	n.step(&in, &p)
	n.mu.Unlock()
	n.finish(&p)
	started := false
	defer func() {
		if !started { // user code has called runtime.Goexit
			c.end(lost)
		}
	}()
	if p.started {
		if !c.opens {
			n.heard()
		}
		n.deliverAll(r, ms, st.calls)
	}
	started = true
	return c
}

// deliverAll starts the calls of a POST, and delivers what came with them. It ends with the session, whose calls were cancelled before they
// began; a client that has gone away takes with it only what has no answer.
func (n *Session) deliverAll(r *http.Request, ms []jsonrpc.Message, calls []*Call) {
	for i := range ms {
		switch request := ms[i].Kind == jsonrpc.Request; {
		case i > 0 && n.isOver():
			return
		case request:
			n.start(calls[0])
			calls = calls[1:]
		case r.Context().Err() == nil:
			n.tell(r, &ms[i])
		}
	}
}

// start hands a call to the app, which must not harm others when it panics.
func (n *Session) start(c *Call) {
	c.work.begin(c)
	defer n.srv.recovered("AppSession.Request", func() { _ = c.Fail(Errorf(CodeInternal, "internal error")) })
	n.app.Request(c)
}
