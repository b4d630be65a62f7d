package snippets

import (
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// GoSDK mounts a server of the official SDK.
func GoSDK(mux *http.ServeMux, server *mcp.Server) {
	srv, err := rejoin.NewServer(gosdk.New(server), rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}})
	if err != nil {
		log.Fatal(err)
	}
	stdadapter.Register(mux, "/mcp", srv)
}

// GoSDKBefore is what stood there before.
func GoSDKBefore(server *mcp.Server) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux
}

// GoSDKPerTenant has a server for each tenant.
func GoSDKPerTenant(servers map[string]*mcp.Server) (*rejoin.Server, error) {
	app := gosdk.NewFunc(func(r *http.Request) *mcp.Server { return servers[r.PathValue("tenant")] })
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	return srv, err
}

// GoSDKAuth authenticates as the SDK does.
func GoSDKAuth(mux *http.ServeMux, server *mcp.Server, verify auth.TokenVerifier) error {
	srv, err := rejoin.NewServer(gosdk.New(server), rejoin.Config{Principal: gosdk.Principal})
	if err != nil {
		return err
	}
	mux.Handle("/mcp", auth.RequireBearerToken(verify, nil)(stdadapter.New(srv)))
	return nil
}

// Both serves both eras on one URL.
func Both(server *mcp.Server) (*rejoin.Server, error) {
	srv, err := rejoin.NewServer(gosdk.New(server), rejoin.Config{Eras: rejoin.Both})
	return srv, err
}
