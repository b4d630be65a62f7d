package gosdk

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A client gets no question that it did not offer to answer, whether the SDK checks that or not. The tool gets an error at once. A ping needs no offer.
func TestTheClientIsAskedOnlyWhatItOffered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asks := map[string]func(context.Context, *mcp.ServerSession) error{
			"elicit": func(ctx context.Context, s *mcp.ServerSession) error {
				_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: colors})
				return err
			},
			"sample": func(ctx context.Context, s *mcp.ServerSession) error {
				_, err := s.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
				return err
			},
			"roots": func(ctx context.Context, s *mcp.ServerSession) error {
				_, err := s.ListRoots(ctx, nil)
				return err
			},
		}
		tools := map[string]handler{}
		for name, ask := range asks {
			tools[name] = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				err := ask(ctx, req.Session)
				return text("%v", err), req.Session.Ping(ctx, nil)
			}
		}
		c := rejointest.New(t, New(newServer(nil, tools)), rejointest.Config{OnRequest: acceptAll, Capabilities: map[string]any{}})
		for name := range asks {
			call := c.CallTool(name, nil)
			result := string(call.Result())
			if !strings.Contains(result, rejoin.ErrNotOffered.Error()) && !strings.Contains(result, "client does not support") {
				t.Errorf("%s: %s", name, result)
			}
			for _, m := range summaries(call.Messages()) {
				if !strings.HasPrefix(m, "ping") && !strings.HasPrefix(m, "result") {
					t.Errorf("%s: the client was asked: %s", name, m)
				}
			}
		}
	})
}
