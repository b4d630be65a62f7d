package gosdk

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A session uses the server that the function returned for initialize. If that has no tools, because it was built for this request only, rejoin
// logs a warning once.
func TestASessionNeedsAWholeServer(t *testing.T) {
	always := &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}
	for name, test := range map[string]struct {
		whole bool
		opts  *mcp.ServerOptions
		tools int
		says  string
	}{
		"for the request, and nothing is announced": {false, nil, 0, "offers nothing"},
		"for the request, and tools are announced":  {false, always, 0, "lists none"},
		"whole":                          {true, nil, 1, ""},
		"whole, and tools are announced": {true, always, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				asked := 0
				app := NewFunc(func(*http.Request) *mcp.Server {
					asked++
					s := mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, test.opts)
					if test.whole || asked > 1 { // the first call is for initialize
						mcp.AddTool(s, &mcp.Tool{Name: "export"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
							return &mcp.CallToolResult{}, nil, nil
						})
					}
					return s
				})
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
				for range 3 {
					if got := string(c.Start("tools/list", nil).Result()); strings.Count(got, `"export"`) != test.tools {
						t.Errorf("tools/list: %s", got)
					}
				}
				if asked != 1 {
					t.Errorf("asked %d times for one session", asked)
				}
				warnings := strings.Count(logged.String(), "level=WARN")
				if want := min(len(test.says), 1); warnings != want || !strings.Contains(logged.String(), test.says) {
					t.Errorf("%d warnings, want %d with %q: %s", warnings, want, test.says, &logged)
				}
			})
		})
	}
}
