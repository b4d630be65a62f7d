package snippets

import (
	"log"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// MCPGo mounts a server of mcp-go.
func MCPGo(mux *http.ServeMux, mcpServer *server.MCPServer) {
	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}})
	if err != nil {
		log.Fatal(err)
	}
	stdadapter.Register(mux, "/mcp", srv)
}

// MCPGoBefore is what stood there before.
func MCPGoBefore(mcpServer *server.MCPServer) http.Handler {
	handler := server.NewStreamableHTTPServer(mcpServer)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux
}
