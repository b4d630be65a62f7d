package mcpgo

import (
	"context"
	"errors"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A client gets no question that it did not offer to answer. The tool gets an error at once.
func TestTheClientIsAskedOnlyWhatItOffered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		faults := &list[error]{}
		ask := func(f func(context.Context, *server.MCPServer) (string, error)) handler {
			return func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				_, err := f(ctx, s)
				faults.add(err)
				return "asked", nil
			}
		}
		app := New(newMCP(nil, map[string]handler{
			"elicit": ask(func(ctx context.Context, s *server.MCPServer) (string, error) { return elicit(ctx, s, "?") }),
			"sample": ask(func(ctx context.Context, s *server.MCPServer) (string, error) { return sample(ctx, s, "?") }),
			"roots":  ask(listRoots),
		}))
		c := rejointest.New(t, app, rejointest.Config{})
		for _, name := range []string{"elicit", "sample", "roots"} {
			call := c.CallTool(name, nil)
			same(t, name, summaries(t, call), []string{"result asked"})
		}
		if got := faults.got(); len(got) != 3 {
			t.Fatal(got)
		}
		for _, err := range faults.got() {
			if !errors.Is(err, rejoin.ErrNotOffered) {
				t.Error(err)
			}
		}
	})
}
