package gosdk

import (
	"context"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
)

// However the end of a session crosses with what is on its way, nothing of the session stays, and every tool sees its context end.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(stage *crossing.Stage) rejoin.App {
		tools := map[string]handler{}
		for _, name := range crossing.Tools {
			tools[name] = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text("x"), stage.Perform(ctx, name, voiceOf(req.Session))
			}
		}
		return New(newServer(&mcp.ServerOptions{
			Logger:             slog.New(slog.DiscardHandler),
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			InitializedHandler: func(ctx context.Context, req *mcp.InitializedRequest) {
				stage.Notified(ctx, voiceOf(req.Session))
			},
			RootsListChangedHandler: func(ctx context.Context, req *mcp.RootsListChangedRequest) {
				stage.Notified(ctx, voiceOf(req.Session))
			},
		}, tools))
	})
}

func voiceOf(s *mcp.ServerSession) crossing.Voice {
	return crossing.Voice{
		Say: func(ctx context.Context) error {
			return s.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "x"})
		},
		Ask: func(ctx context.Context) error {
			_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "x", RequestedSchema: colors})
			return err
		},
	}
}
