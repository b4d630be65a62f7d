package conformance_test

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// goSDK is the official Go SDK.
var goSDK = sdk{
	own: func(w work, store bool) (http.Handler, func()) {
		s := goSDKServer(w)
		options := &mcp.StreamableHTTPOptions{}
		if store {
			options.EventStore = mcp.NewMemoryEventStore(nil)
		}
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, options), func() {
			for session := range s.Sessions() { // the handler has no way to end
				_ = session.Close()
			}
		}
	},
	bridge: func(w work) rejoin.App { return gosdk.New(goSDKServer(w)) },
}

func goSDKServer(w work) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "work", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			send := func(ctx context.Context, message string) error {
				return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: r.Params.GetProgressToken(), Message: message,
				})
			}
			text := w(desk{
				ctx:       ctx,
				header:    r.Extra.Header,
				token:     r.Extra.TokenInfo,
				progress:  func(message string) error { return send(ctx, message) },
				broadcast: func(message string) { _ = send(context.Background(), message) },
				letGo: func(after time.Duration) string {
					if r.Extra.CloseSSEStream == nil {
						return "no way to close"
					}
					r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: after})
					return "closed"
				},
			})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	return s
}
