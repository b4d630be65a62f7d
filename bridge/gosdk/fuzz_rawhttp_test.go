package gosdk

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
)

// FuzzRawHTTP sends bytes to a real http.Server with a bridged server behind it: see internal/rawhttp.
func FuzzRawHTTP(f *testing.F) {
	rawhttp.FuzzApp(f, func(log *slog.Logger) (rejoin.App, func() string) {
		s := newServer(&mcp.ServerOptions{
			Logger:             log,
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		}, rawTools())
		bridged := New(s).(*app)
		return bridged, func() string {
			if held := bridged.leftovers(s); held != (leftovers{}) {
				return fmt.Sprintf("%+v", held)
			}
			return ""
		}
	})
}

// rawTools are the tools that the scripts call.
func rawTools() map[string]handler {
	tools := map[string]handler{
		"nothing": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil },
		"ask": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			color, again, err := askColor(ctx, req)
			if err != nil || again != nil {
				return again, err
			}
			return text("%s", color), nil
		},
	}
	for name, run := range rawhttp.Tools {
		tools[name] = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			said, err := run(ctx, rawhttp.Sender{
				Progress: func(ctx context.Context, message string) {
					_ = progress(ctx, req, 0, message) // the client may be gone
				},
				Log: func(ctx context.Context, message string) {
					_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: message}) // likewise
				},
			})
			return text("%s", said), err
		}
	}
	return tools
}
