package mcpgo

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func TestThisVersionIsKnown(t *testing.T) {
	if got := detectFeatures(); got.headerKey == nil || !got.announces || !got.replacesSession {
		t.Fatalf("%+v", got)
	}
	var log bytes.Buffer
	detectFeatures().warn(slog.New(slog.NewTextHandler(&log, nil)))
	same(t, "log", log.String(), "")
}

// With an unknown version the bridge loses what the package documentation says, with a warning for each.
func TestAVersionThatIsNotKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := make(chan struct{})
		close(begin)
		s := newMCP(&server.Hooks{}, map[string]handler{
			"mixed": mixed(begin),
			"who": func(_ context.Context, _ *server.MCPServer, request mcp.CallToolRequest) (string, error) {
				return "<" + request.Header.Get("X-Number") + ">", nil
			},
		})
		a := &app{server: s, modern: newModern(s, false)}
		var log bytes.Buffer
		for range 2 {
			c := rejointest.New(t, a, rejointest.Config{
				OnRequest: echo, Handler: numbered, Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			})
			call := c.CallTool("mixed", map[string]string{"name": "a"})
			call.Result()
			same(t, "messages", summaries(t, call), mixedWants("a"))
			who := c.CallTool("who", nil)
			who.Result()
			same(t, "header", summaries(t, who), []string{"result <>"})
		}
		same(t, "warnings", strings.Count(log.String(), "not known"), 3)
	})
}
