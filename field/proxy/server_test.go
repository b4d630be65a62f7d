//go:build nginx

package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	mcpgolib "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// work is the only tool of a server. It does not know about connections: say reports progress, and the result is the text of the result.
type work func(ctx context.Context, say func(message string) error) (string, error)

// apps are the kinds of app, each with that tool.
var apps = map[string]func(work) rejoin.App{"own handler": own, "go-sdk": goSDK, "mcp-go": mcpGo}

func own(w work) rejoin.App {
	info := rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}
	return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
		if r.Method != "tools/call" {
			return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such method")
		}
		done := 0.0
		text, err := w(ctx, func(message string) error {
			done++
			return rejoin.HandleFromContext(ctx).Progress(done, 0, message)
		})
		if err != nil {
			return nil, err
		}
		return map[string]any{"content": []map[string]any{{"type": "text", "text": text}}}, nil
	})
}

func goSDK(w work) rejoin.App { return gosdk.New(goSDKServer(w)) }

func goSDKServer(w work) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "work", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			done := 0.0
			text, err := w(ctx, func(message string) error {
				done++
				return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: r.Params.GetProgressToken(), Progress: done, Message: message,
				})
			})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
		})
	return s
}

func mcpGo(w work) rejoin.App { return mcpgo.New(mcpGoServer(w)) }

func mcpGoServer(w work) *server.MCPServer {
	s := server.NewMCPServer("test", "1")
	s.AddTool(mcpgolib.NewTool("work"), func(ctx context.Context, r mcpgolib.CallToolRequest) (*mcpgolib.CallToolResult, error) {
		done := 0.0
		text, err := w(ctx, func(message string) error {
			done++
			return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": done, "message": message,
			})
		})
		return mcpgolib.NewToolResultText(text), err
	})
	return s
}

// ownHandlers are the SDKs without rejoin: the HTTP handlers that they have themselves.
var ownHandlers = map[string]func(w work, modern bool) http.Handler{
	"go-sdk": func(w work, modern bool) http.Handler {
		s := goSDKServer(w)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: modern})
	},
	"mcp-go": func(w work, _ bool) http.Handler { return server.NewStreamableHTTPServer(mcpGoServer(w)) },
}

// hold waits until the test closes a channel or sends on it.
func hold(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve starts a server and returns it and its address.
func serve(t *testing.T, app rejoin.App, cfg rejoin.Config) (*rejoin.Server, string) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	srv, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	address := listen(t, mux)
	t.Cleanup(srv.Close)
	return srv, address
}

// listen serves a handler and returns its address.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	hs := httptest.NewServer(h)
	t.Cleanup(hs.Close)
	return hs.Listener.Addr().String()
}
