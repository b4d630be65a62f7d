package snippets

import (
	"context"
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

// GoSDKBefore is the same with the SDK's own handler.
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

// GoSDKPerUser has a server for each session, made for its user.
func GoSDKPerUser(newServer func(user string) *mcp.Server, userOf func(*http.Request) string) rejoin.App {
	app := gosdk.NewFunc(func(r *http.Request) *mcp.Server { // once for each session
		return newServer(userOf(r)) // the whole server, whatever r asks for
	})
	return app
}

type exportArgs struct {
	Rows int `json:"rows"`
}

// GoSDKTool adds a tool that disconnects its client itself.
func GoSDKTool(server *mcp.Server, write func(context.Context, int) error) {
	mcp.AddTool(server, &mcp.Tool{Name: "export"}, func(ctx context.Context, _ *mcp.CallToolRequest, in exportArgs) (*mcp.CallToolResult, any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // an error means only that this client stays connected
		if err := write(ctx, in.Rows); err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "exported"}}}, nil, nil
	})
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
	srv, err := rejoin.NewServer(gosdk.New(server), rejoin.Config{Eras: rejoin.EraBoth})
	return srv, err
}
