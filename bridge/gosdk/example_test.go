package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/client"
)

// An unchanged server of the official SDK behind rejoin. A tool disconnects its client, and the client polls for the result.
func ExampleNew() {
	server := mcp.NewServer(&mcp.Implementation{Name: "demo", Version: "1.0"}, nil)
	type args struct {
		Rows int `json:"rows"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "export"}, func(_ context.Context, req *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		if closeStream := req.Extra.CloseSSEStream; closeStream != nil { // nil if the client cannot poll
			closeStream(mcp.CloseSSEStreamArgs{})
		}
		text := fmt.Sprintf("%d rows", in.Rows)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})

	srv, err := rejoin.NewServer(gosdk.New(server), rejoin.Config{
		Policy: rejoin.Policy{CloseAfter: 50 * time.Second, Retry: time.Millisecond}, // for tools that do not call CloseSSEStream
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
