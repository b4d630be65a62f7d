package gosdk

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/bridge/internal/adoptions"
)

// A session goes on in another process when its owner has ended without a word.
func TestAdoptions(t *testing.T) {
	adoptions.Run(t, adoptions.SDK{New: adoptionServer})
}

func adoptionServer(log *slog.Logger, tools map[string]adoptions.Tool) adoptions.Server {
	s := newServer(&mcp.ServerOptions{
		Logger:             log,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}, nil)
	for name, run := range tools {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				result, err := run(ctx, adoptionCall(ctx, req))
				return text("%s", result), err
			})
	}
	return adoptions.Server{
		App: New(s),
		AddTool: func(name string) {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, quick)
		},
		Updated: func(uri string) {
			_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}) // it always returns nil
		},
		Sessions: func() int { return len(slices.Collect(s.Sessions())) },
	}
}

func adoptionCall(ctx context.Context, req *mcp.CallToolRequest) adoptions.Call {
	return adoptions.Call{
		Log: func(level, text string) error {
			return req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(level), Data: text})
		},
		Elicit: func(message string) (string, error) {
			r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{"type": "object"}})
			if err != nil {
				return "", err
			}
			echo, _ := r.Content["echo"].(string)
			return echo, nil
		},
		Sample: func(prompt string) (string, error) {
			r, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
				MaxTokens: 1, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}},
			})
			if err != nil {
				return "", err
			}
			return r.Content.(*mcp.TextContent).Text, nil
		},
		Roots: func() (string, error) {
			r, err := req.Session.ListRoots(ctx, nil)
			if err != nil {
				return "", err
			}
			return r.Roots[0].URI, nil
		},
		Close: func() error {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
			return nil
		},
		Client: func() string {
			p := req.Session.InitializeParams()
			return p.ClientInfo.Name + " " + p.ProtocolVersion
		},
	}
}
