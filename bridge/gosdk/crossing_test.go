package gosdk

import (
	"context"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
	"github.com/rejoin-mcp/rejoin/bridge/internal/longcalls"
)

// Whatever is on its way when a session ends, nothing of the session is left, and the context of each tool ends.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(handlers *crossing.Handlers) rejoin.App {
		tools := map[string]handler{}
		for _, name := range crossing.Tools {
			tools[name] = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text("x"), handlers.Tool(ctx, name, senderOf(req.Session))
			}
		}
		return New(newServer(&mcp.ServerOptions{
			Logger:             slog.New(slog.DiscardHandler),
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			InitializedHandler: func(ctx context.Context, req *mcp.InitializedRequest) {
				handlers.Notification(ctx, senderOf(req.Session))
			},
			RootsListChangedHandler: func(ctx context.Context, req *mcp.RootsListChangedRequest) {
				handlers.Notification(ctx, senderOf(req.Session))
			},
		}, tools))
	})
}

// Whatever is on its way when a call that becomes a task ends, nothing of it is left, and the context of each tool ends.
func TestTasksCross(t *testing.T) {
	if !modernEra(t) {
		return
	}
	crossing.RunTasks(t, func(handlers *crossing.Handlers) rejoin.App {
		tools := map[string]handler{}
		for _, name := range crossing.TaskTools {
			tools[name] = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				answered := field(req.Params, "InputResponses").Len() > 0
				if handlers.TaskTool(ctx, name, answered, senderOf(req.Session)) {
					return longCallResult(longcalls.Outcome{Asks: map[string]string{"k": "x"}})
				}
				return text("x"), nil
			}
		}
		return New(newServer(&mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)}, tools))
	})
}

func senderOf(s *mcp.ServerSession) crossing.Sender {
	return crossing.Sender{
		Log: func(ctx context.Context) error {
			return s.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "x"})
		},
		Elicit: func(ctx context.Context) error {
			_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "x", RequestedSchema: colors})
			return err
		},
	}
}
