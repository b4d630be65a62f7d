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

// servePost reads first and refuses then: a refusal must carry the request's id.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	body, tooLarge, err := readBody(w, r, s.cfg.MaxBodyBytes)
	if err != nil { // the client has stopped sending, and may read all the same
		m, _ := jsonrpc.Parse(body, maxJSONDepth)
		s.refuse(w, badRequest("the body could not be read").withID(m.ID))
		return
	}
	batch := jsonrpc.IsBatch(body)
	var m jsonrpc.Message
	var ms []jsonrpc.Message
	if batch {
		ms, err = jsonrpc.ParseBatch(nil, body, maxJSONDepth)
	} else {
		m, err = jsonrpc.Parse(body, maxJSONDepth)
	}
	f, ok := s.checkPost(r, &m, tooLarge, err)
	switch {
	case !ok && f.status == 0: // the modern era's
		s.serveModern(w, r, &m, body)
	case !ok:
		s.refuse(w, f.withID(m.ID))
	case batch:
		s.postBatch(w, r, ms)
	case m.Kind == jsonrpc.Request && string(m.Method) == "initialize":
		s.postInitialize(w, r, m)
	default:
		n, f := s.session(r)
		switch {
		case n == nil && f.status == http.StatusNotFound:
			s.refuse(w, f) // always with a null id: what is dead for one is dead for all
		case n == nil:
			s.refuse(w, f.withID(m.ID))
		case m.Kind == jsonrpc.Request:
			s.postRequests(w, r, n, []jsonrpc.Message{m}, false)
		default:
			n.tell(r, &m)
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

// checkPost checks what needs no session. A zero status: the request belongs to the modern era.
func (s *Server) checkPost(r *http.Request, m *jsonrpc.Message, tooLarge bool, parse error) (refusal, bool) {
	version := r.Header.Get(versionHeader)
	modern := core.IsModern(version) || modernMeta(m)
	var syntax *jsonrpc.Error
	switch {
	case tooLarge:
		return refusal{
			status: http.StatusRequestEntityTooLarge, code: CodeInvalidRequest, message: "the body is too large (Config.MaxBodyBytes)",
		}, false
	case !isJSON(r.Header.Get("Content-Type")):
		return refusal{
			status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Type must be application/json",
		}, false
	case parse != nil && encoded(r.Header["Content-Encoding"]): // where a middleware has decoded it, the header may still be there
		return refusal{
			status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Encoding is not supported: send the body as it is",
		}, false
	case errors.As(parse, &syntax):
		return refusal{status: http.StatusBadRequest, code: syntax.Code, message: syntax.Reason}, false
	case len(m.ID) > maxIDBytes:
		return refuseLongID, false
	case modern:
		if s.cfg.Eras == Legacy {
			return refuseModern, false
		}
		return refusal{}, false
	case s.cfg.Eras == Modern:
		f := badRequest("this server speaks only versions from " + core.FirstModern + " on (Config.Eras)")
		f.data = `{"supported":["` + core.FirstModern + `"]}`
		return f, false
	}
	return checkVersion(version)
}

// checkVersion refuses a version header that names no known version. Another one than the session's is accepted, and means nothing:
// the session's rules were agreed on in initialize.
func checkVersion(version string) (refusal, bool) {
	if version != "" {
		if _, ok := core.Find(version); !ok {
			f := badRequest("%s: unknown version; this server speaks those in data.supported", versionHeader)
			f.data = supportedData
			return f, false
		}
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

// single returns the one value of a header that must not have two.
func single(values []string) (string, bool) {
	for _, v := range values[min(1, len(values)):] {
		if v != values[0] {
			return "", false
		}
	}
	if len(values) == 0 {
		return "", true
	}
	return values[0], true
}

// tell delivers a notification or an answer.
func (n *Session) tell(r *http.Request, m *jsonrpc.Message) {
	if m.Kind != jsonrpc.Notification {
		n.answered(m)
		_ = n.do(core.In{Op: core.Touch})
		return
	}
	switch string(m.Method) {
	case "notifications/cancelled":
		id, ok := jsonrpc.Field(m.Params, "requestId")
		if ok {
			_ = n.do(core.In{Op: core.Cancel, ID: string(id)})
		}
		return
	case "notifications/initialized":
		n.srv.spoken(n)
	}
	_ = n.do(core.In{Op: core.Touch})
	defer n.srv.recovered("AppSession.Notification", func() {})
	n.app.Notification(newNotification(n.srv, r, m))
}

// postInitialize opens a session. Whatever goes wrong before the answer is written leaves none.
func (s *Server) postInitialize(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
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
		return
	}
	n, f := s.newSession(r, m)
	if n == nil {
		s.refuse(w, f.withID(m.ID))
		return
	}
	served := false
	defer func() {
		if !served { // user code has panicked; net/http ends the connection
			n.end(core.OpenFailure)
		}
	}()
	n.serve(w, r, []jsonrpc.Message{m}, false, core.Initialize, JSON)
	served = true
}

// postRequests serves one request, or a batch with at least one, of a session.
func (s *Server) postRequests(w http.ResponseWriter, r *http.Request, n *Session, ms []jsonrpc.Message, batch bool) {
	json, stream := accepted(r.Header["Accept"])
	mode := Auto
	switch {
	case !json && !stream:
		s.refuse(w, refusal{
			status: http.StatusNotAcceptable, code: CodeInvalidRequest, id: firstRequest(ms).ID,
			message: "Accept must allow application/json or text/event-stream, and should allow both",
		})
		return
	case !stream:
		mode = JSON
	case !json:
		mode = SSE
	}
	n.serve(w, r, ms, batch, 0, mode)
}

// serve starts requests and answers them, and delivers the notifications that came with them. mode is what the client accepts; Auto: anything.
func (n *Session) serve(w http.ResponseWriter, r *http.Request, ms []jsonrpc.Message, batch bool, flags core.Flags, mode Mode) {
	out := newWriter(w, n.srv.cfg.WriteTimeout)
	policy := n.srv.policyFor(r, firstRequest(ms), mode)
	in := core.In{Op: core.Post, Flags: flags, Dur: n.srv.timeLeft(r, &out), Nonce: mrand.Uint64(), Policy: &policy} //nolint:gosec // the stream's name is the secret
	_, _ = rand.Read(in.Stream[:])                                                                                   // it never fails
	if !out.canFlush() {
		in.Flags |= core.NoFlush
		if policy.Mode != core.JSON {
			n.srv.logNoFlush(r)
		}
	}
	st := &stream{id: in.Stream, batch: batch, calls: make([]*Call, 0, len(ms))}
	for i := range ms {
		if ms[i].Kind != jsonrpc.Request {
			continue
		}
		c := newCall(n, r, in.Stream, ms[i])
		c.st, c.first = st, flags&core.Initialize != 0
		st.calls = append(st.calls, c)
		if batch {
			in.Batch = append(in.Batch, core.Request{ID: c.id})
		}
	}
	if !batch {
		in.ID = st.calls[0].id
	}
	p := pass{start: st}
	n.mu.Lock()
	c := n.openConn(out)
	in.Conn, c.stream, c.opens = c.id, in.Stream, flags&core.Initialize != 0
	n.step(in, &p)
	n.mu.Unlock()
	n.finish(&p)
	defer c.close()
	if p.started {
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
	how, why := c.run(r.Context())
	switch {
	case how == refused && why == core.Cancelled:
		w.WriteHeader(http.StatusAccepted)
	case how == refused:
		n.srv.refuse(w, refusalOf(why).withID(refusedID(why, firstRequest(ms).ID)))
	}
	if flags&core.Initialize != 0 && how != answered {
		n.end(core.OpenFailure) // the client does not know the session
	}
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
