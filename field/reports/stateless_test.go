package reports

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcpgosdk "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// apps are both SDKs behind their bridges, each with a tool that answers at once, and one that waits until its context ends.
var apps = map[string]func() rejoin.App{
	"go-sdk": func() rejoin.App {
		s := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
		type none struct{}
		done := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}
		mcp.AddTool(s, &mcp.Tool{Name: "quick"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return done, nil, nil
		})
		mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			return done, nil, nil
		})
		return gosdk.New(s)
	},
	"mcp-go": func() rejoin.App {
		s := server.NewMCPServer("t", "1", server.WithToolCapabilities(true))
		s.AddTool(mcpgosdk.NewTool("quick"), func(context.Context, mcpgosdk.CallToolRequest) (*mcpgosdk.CallToolResult, error) {
			return mcpgosdk.NewToolResultText("done"), nil
		})
		s.AddTool(mcpgosdk.NewTool("wait"), func(ctx context.Context, _ mcpgosdk.CallToolRequest) (*mcpgosdk.CallToolResult, error) {
			<-ctx.Done()
			return mcpgosdk.NewToolResultText("done"), nil
		})
		return mcpgo.New(s)
	},
}

// modern is a request of the stateless era.
func modern(t *testing.T, method, name string) *http.Request {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}}`
	r := message(t, http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+meta+`}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	if name != "" {
		r = message(t, http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"`+name+`","arguments":{},`+meta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	}
	r.Header["Mcp-Session-Id"] = nil // the client has a session, of the other era
	return r.WithContext(t.Context())
}

// Requests without a session leave no session and no goroutine, whether they are answered or their client disconnects. The same holds for the
// probes with which clients find out the era of a server.
func TestStatelessRequestsLeaveNothing(t *testing.T) {
	for name, app := range apps {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rejointest.New(t, app(), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
				send := func(method, tool string) string {
					res := c.Do(modern(t, method, tool))
					body, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
					require.Empty(t, res.Header.Get("Mcp-Session-Id"))
					return string(body)
				}
				require.Contains(t, send("tools/call", "quick"), "done")
				resting, before := len(goroutines()), c.Server().Stats()
				for i := range 500 {
					switch i % 5 {
					case 0:
						require.Contains(t, send("server/discover", ""), "2026-07-28")
					case 1:
						serveAndDisconnect(t, c.Server(), modern(t, "tools/call", "wait"))
					default:
						require.Contains(t, send("tools/call", "quick"), "done")
					}
				}
				elapse(time.Minute)
				running := goroutines()
				require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
				require.Equal(t, before, c.Server().Stats())
			})
		})
	}
}

// A server of the legacy era alone answers a probe of the modern era at once, with an error after which every client falls back, and keeps
// nothing for it.
func TestAProbeOfTheOtherEraIsAnsweredAtOnce(t *testing.T) {
	for name, app := range apps {
		t.Run(name, func(t *testing.T) {
			onEachRouter(t, func(t *testing.T, mount func(*rejoin.Server) http.Handler) {
				c := rejointest.New(t, app(), rejointest.Config{Handler: mount})
				resting, before, began := len(goroutines()), c.Server().Stats(), time.Now()
				for range 100 {
					res := c.Do(modern(t, "server/discover", ""))
					body, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					require.Equal(t, http.StatusBadRequest, res.StatusCode)
					require.Equal(t, "application/json", res.Header.Get("Content-Type"))
					require.Regexp(t, `^\{"jsonrpc":"2.0","id":1,"error":\{"code":-32600,.*"supported":\["2025-11-25",`, string(body))
					require.NoError(t, res.Body.Close())
				}
				require.Zero(t, time.Since(began))
				after := c.Server().Stats()
				require.EqualValues(t, 100, after.Refused-before.Refused)
				after.Refused = before.Refused
				require.Equal(t, before, after)
				require.LessOrEqual(t, len(goroutines()), resting)
			})
		})
	}
}

// serveAndDisconnect serves a request without a network, and disconnects after a second. The SDK decides whether it has sent a head by then.
func serveAndDisconnect(t *testing.T, s *rejoin.Server, r *http.Request) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Second)
	defer leave()
	w := httptest.NewRecorder()
	began := time.Now()
	s.Serve(w, r.WithContext(ctx))
	require.Equal(t, time.Second, time.Since(began), "%s", w.Body)
}

// elapse lets virtual time pass.
func elapse(d time.Duration) { <-time.After(d) }
