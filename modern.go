package rejoin

import (
	"context"
	"net/http"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// modernMeta reports whether a message says of itself that it belongs to the modern era: any version in its _meta but the known
// ones does, since older versions have none there.
func modernMeta(m *jsonrpc.Message) bool {
	v, ok := jsonrpc.Field(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion")
	if !ok {
		return false
	}
	name, _ := jsonrpc.Unquote(v)
	_, known := core.Find(name)
	return !known
}

// serveModern hands a request of the modern era to the app's own handler, with its body as it came. It has no session, so it ends
// with its connection, or with the server.
func (s *Server) serveModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte) {
	s.modern.Add(1) // before it asks whether it may: a drain that begins in between waits for it
	defer func() {
		s.modern.Add(-1)
		s.nudge()
	}()
	if s.draining.Load() {
		s.refuse(w, refuseDraining.withID(m.ID))
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ContextWithServer(r.Context(), s), handleKey{}, &modernCall))
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(ErrShutdown) })()
	r = r.WithContext(ctx)
	r.Body = replay(body)
	s.app.Modern().ServeHTTP(w, r)
}
