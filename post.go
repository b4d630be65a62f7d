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

// servePost reads first and refuses then: a refusal must carry the request's id. While it waits for an answer there is little on its
// stack.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	c := s.openPost(w, r)
	if c == nil {
		return
	}
	how := lost // if user code panics; net/http ends the connection
	defer func() { c.endPost(how) }()
	var why core.Reason
	if how, why = c.run(r.Context()); how == refused {
		s.refusePost(w, c.first, why)
	}
}

func (s *Server) refusePost(w http.ResponseWriter, id []byte, why core.Reason) {
	if why == core.Cancelled {
		s.empty(w, http.StatusAccepted)
		return
	}
	s.refuse(w, refusalOf(why).withID(refusedID(why, id)))
}

// endPost closes the connection of a POST. A session that it was to open is ended if its client does not know it.
func (c *conn) endPost(how outcome) {
	if c.opens && how != answered {
		c.s.end(core.OpenFailure)
	}
	c.close()
}

// openPost does what a POST asks for, but for waiting. Nil: it is answered, else the connection that waits.
func (s *Server) openPost(w http.ResponseWriter, r *http.Request) *conn {
	body, tooLarge, err := readBody(w, r, s.cfg.MaxBodyBytes)
	if err != nil { // the client has stopped sending, and may read all the same
		m, _ := jsonrpc.Parse(body, maxJSONDepth)
		s.refuse(w, badRequest("the body could not be read").withID(m.ID))
		return nil
	}
	batch := jsonrpc.IsBatch(body)
	var m jsonrpc.Message
	var ms []jsonrpc.Message
	if batch {
		ms, err = jsonrpc.ParseBatch(nil, body, maxJSONDepth)
	} else {
		m, err = jsonrpc.Parse(body, maxJSONDepth)
	}
	f, ok := s.checkPost(r, &m, ms, tooLarge, err)
	switch {
	case !ok && f.status == 0: // the modern era's
		s.serveModern(w, r, &m, body)
	case !ok:
		s.refuse(w, f.withID(m.ID))
	case batch:
		return s.postBatch(w, r, ms)
	case m.Kind == jsonrpc.Request && string(m.Method) == "initialize":
		return s.postInitialize(w, r, m)
	default:
		n, f := s.session(r)
		switch {
		case n == nil && f.status == http.StatusNotFound:
			s.refuse(w, f) // always with a null id: what is dead for one is dead for all
		case n == nil:
			s.refuse(w, f.withID(m.ID))
		case m.Kind == jsonrpc.Request:
			return s.postRequests(w, r, n, []jsonrpc.Message{m}, false)
		default:
			n.tell(r, &m)
			s.empty(w, http.StatusAccepted)
		}
	}
	return nil
}

// checkPost checks what needs no session, of a message or of a batch. A zero status: the request belongs to the modern era.
func (s *Server) checkPost(r *http.Request, m *jsonrpc.Message, batch []jsonrpc.Message, tooLarge bool, parse error) (refusal, bool) {
	version, one := single(r.Header[versionHeader])
	declared, modern := modernMeta(m)
	modern = modern || core.IsModern(version) || s.cfg.Eras == Both && modernBatch(batch)
	switch {
	case tooLarge:
		return refusal{
			status: http.StatusRequestEntityTooLarge, code: CodeInvalidRequest, message: "the body is too large (Config.MaxBodyBytes, or a middleware's limit)",
		}, false
	case !isJSON(r.Header.Get("Content-Type")):
		return refusal{
			status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Type must be application/json",
		}, false
	case parse != nil && encoded(r.Header["Content-Encoding"]): // where a middleware has decoded it, the header may still be there
		return refusal{
			status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Encoding is not supported: send the body as it is",
			encoding: "identity",
		}, false
	case parse != nil:
		return malformed(parse), false
	case len(m.ID) > maxIDBytes:
		return refuseLongID, false
	case !one:
		return refuseTwoVersions, false
	case modern && s.cfg.Eras == Legacy:
		return refuseModern, false
	case modern && batch != nil:
		return refuseBatch, false
	case modern:
		return s.checkModern(version, declared)
	case s.cfg.Eras == Modern:
		f := badRequest("this server speaks only versions from " + core.FirstModern + " on (Config.Eras)")
		f.data = s.supported()
		return f, false
	}
	return s.checkVersion(r)
}

// malformed is what Parse found.
func malformed(parse error) refusal {
	if syntax, ok := errors.AsType[*jsonrpc.Error](parse); ok {
		return refusal{status: http.StatusBadRequest, code: syntax.Code, message: syntax.Reason}
	}
	return badRequest("%v", parse) // Parse has no other errors
}

// checkVersion refuses a version header that names no known version, or two. Another one than the session's is accepted, and means nothing:
// the session's rules were agreed on in initialize.
func (s *Server) checkVersion(r *http.Request) (refusal, bool) {
	version, one := single(r.Header[versionHeader])
	if !one {
		return refuseTwoVersions, false
	}
	if _, ok := core.Find(version); version != "" && !ok {
		f := badRequest("%s: unknown version; this server speaks those in data.supported", versionHeader)
		f.data = s.supported()
		return f, false
	}
	return refusal{}, true
}

// session finds the session that a request names.
func (s *Server) session(r *http.Request) (*Session, refusal) {
	id, one := single(r.Header[sessionHeader])
	switch {
	case !one:
		return nil, badRequest("two different values of %s", sessionHeader)
	case id == "":
		return nil, badRequest("%s is missing: send initialize first", sessionHeader)
	}
	n := s.find(id, r)
	if n == nil {
		return nil, refuseUnknownSession
	}
	return n, refusal{}
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
	n.app.Notification(newNotification(n.srv, r, m))
}

// postInitialize opens a session. Whatever goes wrong before the answer is written leaves none.
func (s *Server) postInitialize(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) *conn {
	json, _ := accepted(r.Header["Accept"])
	id, one := single(r.Header[sessionHeader])
	var f refusal
	switch {
	case !json:
		f = refusal{status: http.StatusNotAcceptable, code: CodeInvalidRequest, message: "Accept must allow application/json: initialize is answered with it"}
	case !one:
		f = badRequest("two different values of %s", sessionHeader)
	case s.draining.Load():
		f = refuseDraining
	case id != "" && s.find(id, r) != nil: // a dead one is forgiven: clients keep sending it
		f = badRequest("this session is initialized already; end it with DELETE, or leave %s out", sessionHeader)
	}
	if f.status != 0 {
		s.refuse(w, f.withID(m.ID))
		return nil
	}
	n, f := s.newSession(r, m)
	if n == nil {
		s.refuse(w, f.withID(m.ID))
		return nil
	}
	opened := false
	defer func() {
		if !opened { // user code has panicked; net/http ends the connection
			n.end(core.OpenFailure)
		}
	}()
	c := n.openPost(w, r, []jsonrpc.Message{m}, false, core.Initialize, JSON)
	opened = true
	return c
}

// postRequests serves one request, or a batch with at least one, of a session.
func (s *Server) postRequests(w http.ResponseWriter, r *http.Request, n *Session, ms []jsonrpc.Message, batch bool) *conn {
	json, stream := accepted(r.Header["Accept"])
	mode := Auto
	switch {
	case !json && !stream:
		s.refuse(w, refusal{
			status: http.StatusNotAcceptable, code: CodeInvalidRequest, id: firstRequest(ms).ID,
			message: "Accept must allow application/json or text/event-stream, and should allow both",
		})
		return nil
	case !stream:
		mode = JSON
	case !json:
		mode = SSE
	}
	return n.openPost(w, r, ms, batch, 0, mode)
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
			c.endPost(lost)
		}
	}()
	if p.started {
		if !c.opens {
			n.heard()
		}
		calls := st.calls
		for i := range ms {
			if ms[i].Kind != jsonrpc.Request {
				n.tell(r, &ms[i])
				continue
			}
			n.start(calls[0])
			calls = calls[1:]
		}
	}
	started = true
	return c
}

// refusedID is null where the session is gone: clients take an error with an id for the end of a request, not of the session.
func refusedID(why core.Reason, id []byte) []byte {
	if refusalOf(why).status == http.StatusNotFound {
		return nil
	}
	return id
}

// start hands a call to the app, which must not harm others when it panics.
func (n *Session) start(c *Call) {
	defer n.srv.recovered("AppSession.Request", func() { _ = c.Fail(Errorf(CodeInternal, "internal error")) })
	n.app.Request(c)
}
