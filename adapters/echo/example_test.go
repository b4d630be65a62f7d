package echoadapter_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	"github.com/rejoin-mcp/rejoin/client"
)

// A tool reads what middleware set, and a parameter of the path, when echo has long given its Context to another request.
func ExampleRegister() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the request ends, the call goes on
		user, _ := echoadapter.Get(ctx, "user")
		return fmt.Sprint(user, " of ", echoadapter.Param(ctx, "tenant")), nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	auth := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	}
	e := echo.New()
	echoadapter.Register(e.Group("", auth), "/:tenant/mcp", srv, "user") // echo cannot list its keys: name them
	server := httptest.NewServer(e)
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
	// Output: [{ann of acme}] <nil>
}
