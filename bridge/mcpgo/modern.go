package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/faithful"
)

// newModern returns a handler of version 2026-07-28: mcp-go's own transport, called upstream here, with corrections. rejoin has checked host, origin
// and size already. Upstream can lose or reorder notifications that a handler sends directly before it returns. If it accepts another session in
// place of its own (replacesSession), each request gets a modernSession, which writes its notifications itself.
func newModern(s *server.MCPServer, replacesSession bool) http.Handler {
	upstream := newUpstream(s)
	return faithful.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			upstream.ServeHTTP(w, r) // refuses the method
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params struct {
				Meta *mcp.Meta `json:"_meta"`
			} `json:"params"`
		}
		_ = json.Unmarshal(body, &m) // upstream reports errors
		version := m.Params.Meta.ProtocolVersion()
		switch {
		case m.Method == string(mcp.MethodNotificationCancelled):
			// Upstream matches ids across clients, so one client could cancel another's request. A client cancels when it closes its connection.
			w.WriteHeader(http.StatusAccepted)
		case !mcp.IsModernProtocol(version) && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)):
			// An unknown version, older than 2026-07-28. Upstream would open its own session for it.
			refuseVersion(w, m.ID, version)
		case replacesSession && m.ID != nil && standsAlone(m.Method):
			newModernSession(w, r.Context()).serve(upstream, r)
		default:
			upstream.ServeHTTP(w, r)
		}
	}))
}

// standsAlone reports whether requests of a method can have a session each. A subscription needs mcp-go's own session, which has the stream for it.
// A task belongs to a session id, so its later requests need the same id.
func standsAlone(method string) bool {
	return method != string(mcp.MethodSubscriptionsListen) && !strings.HasPrefix(method, "tasks/")
}

// modernSessionKey is the key of a request's modernSession in its context.
type modernSessionKey struct{}

// newUpstream returns mcp-go's own transport. It replaces its session by the modernSession in a request's context.
func newUpstream(s *server.MCPServer) http.Handler {
	replace := func(ctx context.Context, _ *http.Request) context.Context {
		m, ok := ctx.Value(modernSessionKey{}).(*modernSession)
		if !ok {
			return ctx
		}
		if m.upstreamSession, ok = server.ClientSessionFromContext(ctx).(upstreamSession); !ok {
			return ctx
		}
		return s.WithContext(&modernContext{ctx, m}, m)
	}
	return server.NewStreamableHTTPServer(s, server.WithDisableLocalhostProtection(true), server.WithHTTPContextFunc(replace))
}

// modernContext is what handlerContext is, for a modern request.
type modernContext struct {
	context.Context
	session *modernSession
}

func (c *modernContext) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*rejoin.Handle); ok {
		c.session.outbox.flush()
	}
	return v
}

// refuseVersion answers with the versions that mcp-go supports.
func refuseVersion(w http.ResponseWriter, id any, version string) {
	e := mcp.UnsupportedProtocolVersionError{Version: version, Supported: mcp.ValidProtocolVersions}.JSONRPCError()
	e.ID = mcp.NewRequestId(id)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(e) //nolint:errchkjson // the client may be gone
}
