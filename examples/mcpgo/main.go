// Command mcpgo serves an MCP server that was written with mcp-go. Its tools, in server.go, are unchanged.
//
//	go run ./examples/mcpgo -addr 127.0.0.1:8080
package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/examples/internal/demo"
)

func main() { demo.Main(run) }

// run serves until ctx ends. closeAfter is below the limit of the proxy in front.
func run(ctx context.Context, ln net.Listener, closeAfter time.Duration) error {
	mcpServer := newServer()
	addLetGo(mcpServer)
	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{Policy: rejoin.Policy{CloseAfter: closeAfter}})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	return demo.Serve(ctx, ln, mux, srv)
}
