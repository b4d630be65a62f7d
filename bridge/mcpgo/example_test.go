package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/client"
)

// An unchanged server of mcp-go behind rejoin. A tool disconnects its client, and the client polls for the result.
func ExampleNew() {
	mcpServer := server.NewMCPServer("demo", "1.0")
	mcpServer.AddTool(mcp.NewTool("export"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // an error means only that the client stays connected
		return mcp.NewToolResultText(fmt.Sprintf("%d rows", r.GetInt("rows", 0))), nil
	})

	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{
		Policy: rejoin.Policy{CloseAfter: 50 * time.Second, Retry: time.Millisecond}, // for tools that do not call CloseStream
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	ts := httptest.NewServer(mux)
	defer ts.Close()

	ctx := context.Background()
	s, err := client.Connect(ctx, ts.URL+"/mcp", client.Config{Era: client.EraLegacy}) // a client that polls
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	var result struct{ Content []struct{ Text string } }
	err = s.Do(ctx, "tools/call", map[string]any{"name": "export", "arguments": map[string]any{"rows": 1000}}, &result)
	fmt.Println(result.Content, "closed:", srv.Stats().Closed, err)
	// Output: [{1000 rows}] closed: 1 <nil>
}
