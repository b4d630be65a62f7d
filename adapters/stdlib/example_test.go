package stdadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// A tool reads a wildcard of the path when the request that began its call is long over.
func ExampleRegister() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the request ends, the call goes on
		return stdadapter.PathValue(ctx, "tenant"), nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/{tenant}/mcp", srv)
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL+"/acme/mcp", client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	var result struct{ Content []struct{ Text string } }
	err = s.Do(ctx, "tools/call", map[string]any{"name": "whose"}, &result)
	fmt.Println(result.Content, err)
	// Output: [{acme}] <nil>
}
