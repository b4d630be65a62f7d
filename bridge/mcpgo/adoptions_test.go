package mcpgo

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/adoptions"
)

// A session goes on in another process when its owner has ended without a word.
func TestAdoptions(t *testing.T) {
	adoptions.Run(t, adoptions.SDK{New: adoptionServer})
}

// registered are the sessions that a server has, as its hooks say.
type registered struct{ list[server.ClientSession] }

func (r *registered) hooks() *server.Hooks {
	hooks := &server.Hooks{}
	hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) { r.add(s) })
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = slices.DeleteFunc(r.all, func(other server.ClientSession) bool { return other.SessionID() == s.SessionID() })
	})
	return hooks
}

func adoptionServer(_ *slog.Logger, tools map[string]adoptions.Tool) adoptions.Server {
	var sessions registered
	s := newMCP(sessions.hooks(), nil)
	for name, run := range tools {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := run(ctx, adoptionCall(ctx, s))
			return mcp.NewToolResultText(result), err
		})
	}
	return adoptions.Server{
		App:     New(s),
		AddTool: func(name string) { s.AddTool(mcp.NewTool(name), nil) },
		Updated: func(uri string) {
			for _, session := range sessions.got() {
				if subs, _ := session.(server.SessionWithResourceSubscriptions); subs.IsSubscribedToResource(uri) {
					_ = s.SendNotificationToSpecificClient(session.SessionID(), mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
				}
			}
		},
		Sessions: func() int { return len(sessions.got()) },
	}
}

func adoptionCall(ctx context.Context, s *server.MCPServer) adoptions.Call {
	session, _ := server.ClientSessionFromContext(ctx).(*clientSession)
	return adoptions.Call{
		Log: func(level, text string) error {
			return s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevel(level), "l", text))
		},
		Elicit: func(message string) (string, error) { return elicit(ctx, s, message) },
		Sample: func(prompt string) (string, error) {
			r, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
				MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(prompt)}},
			}})
			if err != nil {
				return "", err
			}
			return r.Content.(mcp.TextContent).Text, nil
		},
		Roots:  func() (string, error) { return listRoots(ctx, s) },
		Close:  func() error { return rejoin.HandleFromContext(ctx).CloseStream(0) },
		Client: func() string { return session.GetClientInfo().Name + " " + session.ProtocolVersion() },
	}
}
