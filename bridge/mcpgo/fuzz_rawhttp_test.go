package mcpgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
)

// FuzzRawHTTP sends bytes to a real http.Server with a bridged server behind it. rejoin/internal/rawhttp says what they may hold, and what
// must come back. One bit of what is a policy, another leaves the modern era out.
func FuzzRawHTTP(f *testing.F) {
	for _, script := range rawhttp.Seeds() {
		f.Add([]byte(script), uint8(0))
		f.Add([]byte(script), uint8(rawSSE|rawLegacy))
	}
	f.Fuzz(func(t *testing.T, script []byte, what uint8) {
		bubble(t, func(t *testing.T) { rawhttp.Play(t, rawSubject(t, what), script) })
	})
}

const (
	rawSSE = 1 << iota
	rawLegacy
)

func rawSubject(t *testing.T, what uint8) rawhttp.Subject {
	logged := &rawhttp.Log{}
	var known atomic.Int64 // sessions, in mcp-go
	hooks := &server.Hooks{}
	hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) { known.Add(1) })
	hooks.AddOnUnregisterSession(func(context.Context, server.ClientSession) { known.Add(-1) })
	s := newMCP(hooks, rawTools())
	s.AddTool(mcp.NewTool("nothing"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, nil
	})
	cfg := rejoin.Config{MaxBodyBytes: 8 << 10, Logger: slog.New(slog.NewTextHandler(logged, nil)), Store: eventstore.NewMemory(eventstore.MemoryConfig{})}
	if what&rawSSE != 0 {
		cfg.Policy.Mode = rejoin.SSE
	}
	if what&rawLegacy == 0 {
		cfg.Eras = rejoin.Both
	}
	srv := newServer(t, New(s), cfg)
	return rawhttp.Subject{
		Handler: stdadapter.New(srv), Logged: logged,
		EndSessions: func() {
			for info := range srv.Sessions() {
				if err := srv.EndSession(info.Ref); err != nil {
					t.Error(err)
				}
			}
		},
		Left: func() string {
			now := srv.Stats()
			if now.Sessions+now.Streams+now.Connections+now.Parked+now.StoredBytes+known.Load() != 0 {
				return fmt.Sprintf("%+v, and %d sessions of mcp-go", now, known.Load())
			}
			return ""
		},
	}
}

// rawTools are what the scripts call.
func rawTools() map[string]handler {
	tell := func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) {
		if r.Params.Meta != nil {
			_ = s.SendNotificationToClient(ctx, "notifications/progress", // the client may be gone
				map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "message": "a\u2028\r\n\x00"})
		}
	}
	return map[string]handler{
		"quick": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) { return "done", nil },
		"fail": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
			return "", errors.New("it fails")
		},
		"log": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			return "done", s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "l", "x"))
		},
		"progress": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			for range 3 {
				tell(ctx, s, r)
				<-time.After(60 * time.Millisecond)
			}
			return "done", nil
		},
		"poll": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			tell(ctx, s, r)
			if h := rejoin.HandleFromContext(ctx); h != nil {
				_ = h.CloseStream(0) // some clients cannot poll
			}
			tell(ctx, s, r)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			tell(ctx, s, r)
			return "done", ctx.Err()
		},
		"block": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			tell(ctx, s, r)
			<-ctx.Done()
			return "", ctx.Err()
		},
		"ask": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			return elicit(ctx, s, "?")
		},
	}
}
