package gosdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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
	log := slog.New(slog.NewTextHandler(logged, nil))
	s := newServer(&mcp.ServerOptions{
		Logger:             log,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}, rawTools())
	bridged := New(s).(*app)
	cfg := rejoin.Config{MaxBodyBytes: 8 << 10, Logger: log, Store: eventstore.NewMemory(eventstore.MemoryConfig{})}
	if what&rawSSE != 0 {
		cfg.Policy.Mode = rejoin.SSE
	}
	if what&rawLegacy == 0 && bridged.modern != nil {
		cfg.Eras = rejoin.Both
	}
	srv, err := rejoin.NewServer(bridged, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
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
			now, here := srv.Stats(), bridged.left(s)
			if now.Sessions+now.Streams+now.Connections+now.Parked+now.StoredBytes != 0 || here != (left{}) {
				return fmt.Sprintf("%+v %+v", now, here)
			}
			return ""
		},
	}
}

// rawTools are what the scripts call.
func rawTools() map[string]handler {
	tell := func(ctx context.Context, req *mcp.CallToolRequest) {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Message: "a\u2028\r\n\x00"}) // the client may be gone
	}
	done := func(ctx context.Context) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, ctx.Err()
	}
	return map[string]handler{
		"quick": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return done(ctx) },
		"fail": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("it fails")
		},
		"nothing": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil },
		"log": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "x"})
			return done(ctx)
		},
		"progress": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for range 3 {
				tell(ctx, req)
				elapse(60 * time.Millisecond)
			}
			return done(ctx)
		},
		"poll": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			tell(ctx, req)
			if h := rejoin.HandleFromContext(ctx); h != nil {
				_ = h.CloseStream(0) // some clients cannot poll
			}
			tell(ctx, req)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			tell(ctx, req)
			return done(ctx)
		},
		"block": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			tell(ctx, req)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"ask": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			color, again, err := askColor(ctx, req)
			if err != nil || again != nil {
				return again, err
			}
			return text("%s", color), nil
		},
	}
}
