package rejoin

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// modernMeta reports whether a message says of itself that it belongs to the modern era: any version in its _meta but the known
// ones does, since older versions have none there. declared is that version, as JSON; nil: there is none.
func modernMeta(m *jsonrpc.Message) (declared []byte, modern bool) {
	declared, ok := jsonrpc.Field(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion")
	if !ok {
		return nil, false
	}
	name, _ := jsonrpc.Unquote(declared)
	_, known := core.Find(name)
	return declared, !known
}

func isModern(m *jsonrpc.Message) bool {
	_, modern := modernMeta(m)
	return modern
}

// checkModern lets a modern request through to the app's handler, which knows its versions. What no version of that era can be,
// in the header or else in the body, is refused here, as that era has it.
func (s *Server) checkModern(version string, declared []byte) *refusal {
	if _, known := core.Find(version); known || version == "" {
		if declared == nil {
			return nil
		}
		version, _ = jsonrpc.Unquote(declared)
	}
	if core.IsModern(version) {
		return nil
	}
	data := strings.TrimSuffix(s.supported(), "}") + `,"requested":` + string(jsonrpc.AppendString(nil, version[:min(len(version), 64)])) + "}"
	return &refusal{
		status: http.StatusBadRequest, code: codeVersion, data: data, message: "unknown protocol version; this server speaks those in data.supported",
	}
}

// serveModern hands a request of the modern era to the app's own handler, with its body as it came. It has no session, so it ends
// with its connection, or with the server. The handler has a goroutine of its own, which this one outlives.
func (s *Server) serveModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte) *refusal {
	running, life := &s.modern, s.life
	if string(m.Method) == "subscriptions/listen" { // it has no end of its own, so a drain ends it instead of waiting
		running, life = &s.listens, s.listening
	}
	running.Add(1) // before it asks whether it may: a drain that begins in between waits for it
	defer func() {
		running.Add(-1)
		s.nudge()
	}()
	if s.draining.Load() {
		return &refuseDraining
	}
	if s.overworked() {
		return &refuseOverworked
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ContextWithServer(r.Context(), s), handleKey{}, &Handle{modern: s}))
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(ErrShutdown) })()

	out := newModernResponse(s, w, r, m.ID, cancel)
	ended := make(chan struct{})
	returned := s.mindful(ctx)
	defer func() { // also where a middleware's writer has panicked: the handler must not outlive its request
		cancel(nil)
		close(out.in.over)
		<-ended
		returned()
	}()
	go out.handle(s.app.Modern(), modernRequest(r.WithContext(ctx), body), ended)
	out.run(ended)
	returned()
	out.finish(ctx)
	return nil
}

// mindful counts a handler that has not returned when ctx ends, until returned is called.
func (s *Server) mindful(ctx context.Context) (returned func()) {
	stop := context.AfterFunc(ctx, func() { s.stale.Add(1) })
	return sync.OnceFunc(func() {
		if !stop() {
			s.stale.Add(-1)
		}
	})
}

// modernRequest makes a request, which is ours alone, what the app's handler gets: the body that was checked, and nothing that only means
// something in the legacy era, since clients of both keep sending it.
func modernRequest(r *http.Request, body []byte) *http.Request {
	r.Body, r.ContentLength, r.TransferEncoding = replay(body), int64(len(body)), nil
	r.Header = r.Header.Clone()
	r.Header.Del(sessionHeader)
	r.Header.Del(cursorHeader)
	if version, _ := single(r.Header[versionHeader]); version != "" {
		r.Header[versionHeader] = []string{version} // it may have come twice
	}
	return r
}
