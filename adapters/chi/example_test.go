package chiadapter_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	"github.com/rejoin-mcp/rejoin/client"
)

// A tool reads a parameter of the path, by chi's own function, when the request that began its call is long over.
func ExampleNew() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the request ends, the call goes on
		return chi.URLParamFromCtx(ctx, "tenant"), nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := chi.NewRouter()
	r.Mount("/{tenant}/mcp", chiadapter.New(srv))
	server := httptest.NewServer(r)
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
