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

	"github.com/rejoin-mcp/rejoin/bridge/internal/faithful"
)

// modern serves 2026-07-28 with mcp-go's own transport, except for what that would get wrong. rejoin has checked host, origin and
// size already. The transport can lose, or swap, what a handler sends right before it returns; so such messages go past it where it
// takes our session in place of its own (swaps).
func modern(s *server.MCPServer, swaps bool) http.Handler {
	upstream := newUpstream(s)
	return faithful.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			upstream.ServeHTTP(w, r) // refuses: there is no other verb
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
		_ = json.Unmarshal(body, &m) // upstream says what is wrong
		version := m.Params.Meta.ProtocolVersion()
		switch {
		case m.Method == string(mcp.MethodNotificationCancelled):
			// A client cancels by closing its connection. Upstream would end whichever request has that id, whosever it is.
			w.WriteHeader(http.StatusAccepted)
		case !mcp.IsModernProtocol(version) && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)):
			// A version that never was, before 2026-07-28. Upstream would open a session of its own for it.
			refuse(w, m.ID, version)
		case swaps && m.ID != nil && ordinary(m.Method):
			newModernLine(w, r.Context()).serve(upstream, r)
		default:
			upstream.ServeHTTP(w, r)
		}
	}))
}

// ordinary reports whether requests of a method end by themselves, and need no session in common with others: mcp-go has a stream of
// its own for a subscription, and knows by the session's id whose a task is.
func ordinary(method string) bool {
	return method != string(mcp.MethodSubscriptionsListen) && !strings.HasPrefix(method, "tasks/")
}

type modernLineKey struct{}

// newUpstream makes mcp-go's own transport, which puts the line of a request's context in place of its session.
func newUpstream(s *server.MCPServer) http.Handler {
	swap := func(ctx context.Context, _ *http.Request) context.Context {
		l, ok := ctx.Value(modernLineKey{}).(*modernLine)
		if !ok {
			return ctx
		}
		if l.upstreamSession, ok = server.ClientSessionFromContext(ctx).(upstreamSession); !ok {
			return ctx
		}
		return s.WithContext(ctx, l)
	}
	return server.NewStreamableHTTPServer(s, server.WithDisableLocalhostProtection(true), server.WithHTTPContextFunc(swap))
}

func refuse(w http.ResponseWriter, id any, version string) {
	e := mcp.UnsupportedProtocolVersionError{Version: version, Supported: mcp.ValidProtocolVersions}.JSONRPCError()
	e.ID = mcp.NewRequestId(id)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(e) //nolint:errchkjson // the client may be gone
}
